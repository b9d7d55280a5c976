// The board as markup, over what the chart draws: aims, cap, ghosts, stuck ops, and the player's place. Pure functions.

import { arrowMarkup } from "../../../view/js/arrows.js";
import { escape, labelFont, px } from "../../../view/js/lettering.js";
import { boxOf, stripUnit, xOf } from "../../../view/js/layout.js";
import { ghostBoxes, opLabel, opParts } from "./puzzle_moves.js";

const LEAST_FONT = 12; // pixels; with less room, the count of further ready ops is left out

const ROOM = 64; // pixels that the name of an aim takes

const CORNER = 54; // pixels that a name in the middle and a stage beside it take

/** The boxes of all ops of one device in running order: those that run, then those that are stuck. */
export function laneBoxes(panel, stuck, device) {
  const { spec, frame, lanes } = panel;
  const boxes = [];
  for (let index = spec.first[device]; index < spec.first[device + 1]; index++) boxes.push(boxOf(panel, index));
  for (const box of stuck.filter((one) => one.device === device)) {
    const x = xOf(frame, box.start);
    boxes.push({ x, y: lanes[device].y, width: xOf(frame, box.end) - x, height: lanes[device].height });
  }
  return boxes;
}

/** The ghosts with their boxes. */
export function ghostsOf(panel, ghosts) {
  const { lanes, frame } = panel;
  return ghostBoxes(ghosts, { top: (device) => lanes[device].y, height: lanes[0].height, xOf: (time) => xOf(frame, time) });
}

/** What stays until the next move: aims, caps, stage numbers, stuck ops, ops that are wrong. */
export function standing(panel, board, wrong) {
  return grounds(panel) + aims(panel, board) + caps(panel, board) + stageTags(panel) + stuckBoxes(panel, board) + wrongOps(panel, board, wrong) + circle(panel, board);
}

/** A line under every lane, so that an empty one is seen. */
function grounds({ frame, lanes }) {
  const lines = lanes.map(({ y, height }) => `M${px(frame.left)} ${px(y + height + 1)}H${px(frame.right)}`);
  return `<path class="gp-ground" d="${lines.join("")}"/>`;
}

/** What to do with an empty board, written on it. */
export function invitation({ frame, lanes }, { ghosts }) {
  const [first] = ghosts;
  if (!first) return "";
  const { y, height } = lanes[first.device];
  return `<text class="ge-note" x="${px(frame.left + 8)}" y="${px(y + height / 2)}" dy=".36em">click ${opLabel(first.op, false)} below</text>`;
}

function upright(panel, time, words, kind) {
  const x = px(xOf(panel.frame, time));
  return (
    `<path class="gp-aim gp-${kind}" d="M${x} 16V${panel.height}"/>` +
    `<text class="ge-note gp-aim-name" x="${x}" y="9" dy=".36em" text-anchor="end">${escape(words)}</text>`
  );
}

function aims(panel, { goal, par }) {
  if (goal === null) return "";
  if (par === null || par === goal) return upright(panel, goal, par === null ? `goal ${goal}` : `goal and par ${goal}`, "goal");
  const close = (goal - par) * panel.frame.scale < ROOM;
  const words = close ? `par ${par}, goal ${goal}` : `goal ${goal}`;
  return upright(panel, goal, words, "goal") + upright(panel, par, close ? "" : `par ${par}`, "par");
}

function caps(panel, { cap }) {
  if (!cap || !panel.memory) return "";
  const { frame } = panel;
  return cap
    .map((most, device) => {
      const y = px(panel.lanes[device].strip + 26 - most * stripUnit(panel));
      const words = `<text class="ge-note gp-cap-name" x="${frame.width - frame.edge}" y="${y}" dy=".36em" text-anchor="end">cap ${most}</text>`;
      return `<path class="ge-cap" d="M${px(frame.left)} ${y}H${px(frame.right)}"/>${words}`;
    })
    .join("");
}

/** Where a device holds several stages, the letter and number of an op are not its whole name. */
function stageTags(panel) {
  const { spec } = panel;
  if (!spec.stages.some((stages) => stages.length > 1)) return "";
  let tags = "";
  for (let index = 0; index < spec.kind.length; index++) {
    const { x, y, width, height } = boxOf(panel, index);
    if (width < 20) continue;
    const beside = width >= CORNER; // in the corner, where it does not touch the name
    const place = `x="${px(beside ? x + width - 3 : x + width / 2)}" y="${px(y + height - (beside ? 4 : 2))}" text-anchor="${beside ? "end" : "middle"}"`;
    tags += `<text class="gp-tag ge-on-${spec.kind[index]}" ${place}>@${spec.stage[index]}</text>`;
  }
  return tags;
}

function named({ x, y, width, height }, label, kind) {
  const font = labelFont(label, width);
  if (!font) return "";
  const size = Math.min(font, height - 2);
  return `<text class="ge-label ${kind}" x="${px(x + width / 2)}" y="${px(y + height / 2)}" dy=".36em" font-size="${px(size)}">${escape(label)}</text>`;
}

function rectangle({ x, y, width, height }, kind, more = "") {
  return `<rect class="${kind}" x="${px(x)}" y="${px(y)}" width="${px(Math.max(2, width))}" height="${px(height)}"${more}/>`;
}

function stuckBoxes(panel, { stuck }) {
  const several = panel.spec.stages.some((stages) => stages.length > 1);
  return stuck
    .map((box) => {
      const x = xOf(panel.frame, box.start);
      const place = { x, y: panel.lanes[box.device].y, width: xOf(panel.frame, box.end) - x, height: panel.lanes[box.device].height };
      return rectangle(place, "gp-stuck") + named(place, `${opLabel(box.op, several)}?`, "gp-stuck-name");
    })
    .join("");
}

function wrongOps(panel, { stuck }, wrong) {
  const { spec } = panel;
  let markup = "";
  for (let index = 0; index < spec.kind.length; index++) {
    const name = `${spec.kind[index]}${spec.micro_batch[index]}@${spec.stage[index]}`;
    if (wrong.has(name)) markup += rectangle(boxOf(panel, index), "gp-wrong");
  }
  for (const box of stuck.filter(({ op }) => wrong.has(op))) {
    const place = laneBoxes(panel, stuck, box.device)[box.at];
    if (place) markup += rectangle(place, "gp-wrong");
  }
  return markup;
}

/** The arrows of a deadlock: from an op to the one it waits for, dashed from there to the one it stands behind. */
function circle(panel, board) {
  let markup = "";
  for (const [from, to, turn] of board.circle) {
    markup += arrowMarkup(panel.lanes, placeOf(panel, board, from), placeOf(panel, board, to), turn);
  }
  return markup;
}

/** The box of an op by its name; of one that is still to be placed, where it would stand: behind its device's last. */
function placeOf(panel, board, name) {
  const { spec, lanes, frame } = panel;
  const { stage } = opParts(name);
  const device = stage % spec.K;
  const boxes = laneBoxes(panel, board.stuck, device);
  const stuck = board.stuck.find(({ op }) => op === name);
  if (stuck) return boxes[stuck.at];
  for (let index = spec.first[device]; index < spec.first[device + 1]; index++) {
    if (`${spec.kind[index]}${spec.micro_batch[index]}@${spec.stage[index]}` === name) return boxOf(panel, index);
  }
  const last = boxes.at(-1);
  return { x: last ? last.x + last.width + 6 : frame.left, y: lanes[device].y, width: 12, height: lanes[device].height };
}

/** What changes as one looks around. look: {ghosts, hint, place, focused, carried, target}; mark names the focus. */
export function passing(panel, board, look, mark, spoken) {
  const several = panel.spec.stages.some((stages) => stages.length > 1);
  let markup = "";
  for (const ghost of look.ghosts ? ghostsOf(panel, board.ghosts) : []) {
    const label = opLabel(ghost.op, several);
    const whole = ghost.more ? `${label} +${ghost.more}` : label;
    markup += rectangle(ghost, "gp-ghost") + named(ghost, labelFont(whole, ghost.width) > LEAST_FONT ? whole : label, "gp-ghost-name");
  }
  if (look.hint?.device !== undefined && look.hint.device !== null) markup += hinted(panel, board, look.hint);
  const moving = look.carried && laneBoxes(panel, board.stuck, look.carried.device)[look.carried.at];
  if (moving) markup += rectangle(moving, "gp-carried");
  const boxes = look.place && laneBoxes(panel, board.stuck, look.place.device);
  if (look.target) markup += bar(panel, board, look.target, "gp-target", "", "");
  else if (boxes?.[look.place.at]) {
    const box = boxes[look.place.at];
    const name = look.focused ? ` id="focus-${mark}" role="img" aria-label="${escape(spoken)}"` : "";
    markup += rectangle(box, "ge-rim") + rectangle(box, look.focused ? "ge-focus" : "ge-selected", name);
  } else if (look.place && look.focused) markup += bar(panel, board, look.place, "gp-caret", mark, spoken);
  return markup;
}

function hinted(panel, { ghosts }, { device, op }) {
  const { frame, lanes } = panel;
  const ghost = op && ghostsOf(panel, ghosts.filter((one) => one.op === op))[0];
  if (ghost) return rectangle(ghost, "gp-ghost") + rectangle(ghost, "gp-hinted") + named(ghost, op.split("@")[0], "gp-ghost-name");
  return rectangle({ x: frame.left - 4, y: lanes[device].y - 2, width: frame.right - frame.left + 8, height: lanes[device].height + 4 }, "gp-hinted");
}

/** A bar at a place between two boxes, before the first or behind the last. */
function bar(panel, { stuck }, { device, at }, kind, mark, spoken) {
  const boxes = laneBoxes(panel, stuck, device);
  const before = boxes[at - 1];
  const x = at < boxes.length ? boxes[at].x : before ? before.x + before.width : panel.frame.left;
  const lane = panel.lanes[device];
  const name = mark ? ` id="focus-${mark}" role="img" aria-label="${escape(spoken)}"` : "";
  return rectangle({ x: x - 2, y: lane.y - 3, width: 4, height: lane.height + 6 }, kind, name);
}
