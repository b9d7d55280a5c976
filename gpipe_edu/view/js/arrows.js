// Arrows for a broken rule, from an op to the one it needs: the twin of stuck.py's. Markup only.

import { px } from "./lettering.js";

const BEND = 9; // pixels beside a lane, for an arrow along it

/** lanes: all of the panel. one, two: boxes. turn: the one only stands behind the other, so the line is dashed. */
export function arrowMarkup(lanes, one, two, turn = false) {
  const points = pointsOf(lanes, one, two, turn);
  const line = `M${points.map(([x, y]) => `${px(x)} ${px(y)}`).join("L")}`;
  return `<path class="ge-arrow-rim ge-strong" d="${line}"/><path class="${turn ? "ge-turn" : "ge-wait"}" d="${line}"/><path class="ge-tip" d="${tipOf(points)}"/>`;
}

/** Straight from lane to lane; where these are close, from inside one box to inside the other. Along a lane, the line
 * bends below it for a turn, else above. Past a lane in between, off the middle of the ops, where their names are. */
function pointsOf(lanes, one, two, turn) {
  const past = lanes.some(({ y }) => Math.min(one.y, two.y) < y && y < Math.max(one.y, two.y));
  const [x1, x2] = [one, two].map(({ x, width }) => x + (past ? 0.8 : 0.5) * width);
  if (one.y === two.y) {
    const [edge, bend] = turn ? [one.y + one.height, one.y + one.height + BEND] : [one.y, one.y - BEND];
    return [[x1, edge], [x1, bend], [x2, bend], [x2, edge]];
  }
  const down = two.y > one.y;
  const inset = Math.abs(two.y - one.y) - one.height >= 2 * BEND ? 0 : one.height / 4;
  return [[x1, down ? one.y + one.height - inset : one.y + inset], [x2, down ? two.y + inset : two.y + two.height - inset]];
}

function tipOf(points) {
  const [[x1, y1], [x2, y2]] = points.slice(-2);
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [along, across] = [(x2 - x1) / length, (y2 - y1) / length];
  const [x, y] = [x2 - 9 * along, y2 - 9 * across];
  return `M${px(x2)} ${px(y2)}L${px(x - 4.5 * across)} ${px(y + 4.5 * along)}L${px(x + 4.5 * across)} ${px(y - 4.5 * along)}z`;
}
