// What lies over the chart and changes as one looks around: outlines, transfer arrows, critical path. Markup only.

import { arrowMarkup } from "./arrows.js";
import { escape, px } from "./lettering.js";
import { beginsPair, boxOf, deviceOf, idleOf, planBoxOf } from "./layout.js";
import { needsOf, unblockedBy } from "./navigation.js";

/** Up to this many ops every transfer has its arrow; above, only those of the selected micro-batch. */
export const MOST_ARROWS = 60;

const TIGHT = 20; // pixels between two lanes

/** The box of an item. */
export function itemBox(panel, item) {
  return item.type === "op" ? boxOf(panel, item.index) : idleOf(panel, item.index);
}

/** The transfers to draw: pairs of op numbers on different devices. `near`: an op whose micro-batch is selected. */
export function transfers(spec, near) {
  const chosen = near === null ? null : spec.micro_batch[near];
  if (chosen === null && spec.kind.length > MOST_ARROWS) return [];
  const pairs = [];
  const late = new Set(spec.broken.map(([early, need]) => `${early},${need}`)); // those have an arrow of their own
  for (let index = 0; index < spec.kind.length; index++) {
    if (chosen !== null && spec.micro_batch[index] !== chosen) continue;
    for (const need of needsOf(spec, index)) {
      if (deviceOf(spec, need) !== deviceOf(spec, index) && !late.has(`${index},${need}`)) pairs.push([need, index]);
    }
  }
  return pairs;
}

/** Outlines, arrows and the critical path. active: the item looked at; selected: the one held; both may be null. */
export function overlay(panel, { active, selected, critical, focused, arrows }, mark, spoken) {
  const op = [selected, active].find((item) => item?.type === "op");
  let markup = (critical ? route(panel) : "") + broken(panel);
  if (arrows) markup += arrowLines(panel, transfers(panel.spec, op ? op.index : null), Boolean(op));
  if (active?.type === "op") {
    if (panel.spec.plan) markup += outline(planBoxOf(panel, active.index), panel, "ge-planned");
    for (const need of needsOf(panel.spec, active.index)) markup += outline(boxOf(panel, need), panel, "ge-need");
    for (const after of unblockedBy(panel.spec, active.index)) markup += outline(boxOf(panel, after), panel, "ge-after");
  }
  if (active?.type === "idle") {
    const { cause, next } = panel.spec.idle;
    if (cause[active.index] >= 0) markup += outline(boxOf(panel, cause[active.index]), panel, "ge-need");
    if (next[active.index] >= 0) markup += outline(boxOf(panel, next[active.index]), panel, "ge-after");
  }
  if (selected) markup += outline(itemBox(panel, selected), panel, "ge-selected");
  if (active) markup += outline(itemBox(panel, active), panel, focused ? "ge-focus" : "ge-hover", focused ? mark : "", spoken);
  return markup;
}

function outline(box, { frame }, kind, mark = "", label = "") {
  const left = Math.max(frame.left, box.x);
  const width = Math.max(2, Math.min(frame.right, box.x + box.width) - left);
  if (left > frame.right || box.x + box.width < frame.left) return "";
  const place = `x="${px(left)}" y="${box.y}" width="${px(width)}" height="${box.height}"`;
  const name = mark ? ` id="focus-${mark}" role="img" aria-label="${escape(label)}"` : "";
  const rim = kind === "ge-planned" ? "" : `<rect class="ge-rim" ${place}/>`; // it would fill a ribbon
  return `${rim}<rect class="${kind}" ${place}${name}/>`;
}

/** The heads of arrows are drawn by hand: a marker would need one more name on the page. */
function arrowLines(panel, pairs, strong) {
  let lines = "";
  let heads = "";
  for (const [from, to] of pairs) {
    const one = boxOf(panel, beginsPair(panel.spec, from) ? from + 1 : from);
    const two = boxOf(panel, to);
    const down = two.y > one.y;
    const x1 = one.x + one.width;
    const x2 = two.x;
    if (x1 < panel.frame.left || x2 > panel.frame.right) continue;
    // Between lanes without a memory strip a steep arrow has no room: it goes from the middle of one box into the next.
    const steep = x2 - x1 < 2 * TIGHT;
    const inside = steep && Math.abs(two.y - one.y) - one.height < TIGHT ? one.height / 2 : 6;
    const y1 = down ? one.y + one.height - inside : one.y + inside;
    const y2 = (down ? two.y : two.y + two.height) + (inside > 6 ? (down ? 7 : -7) : 0);
    const end = x2 + Math.min(4, two.width / 2);
    const tip = down ? -6 : 6;
    lines += `M${px(x1 - Math.min(3, one.width / 2))} ${px(y1)}L${px(end)} ${px(y2 + tip)}`;
    heads += `M${px(end)} ${px(y2)}l-3.5 ${tip}h7z`;
  }
  if (!lines) return "";
  const weight = strong ? "ge-strong" : "ge-weak";
  return `<path class="ge-arrow-rim ${weight}" d="${lines}"/><path class="ge-arrow ${weight}" d="${lines}"/><path class="ge-head ${weight}" d="${heads}"/>`;
}

/** In a drawing that cannot be, and in a schedule that cannot run: an arrow from each op to the one that it needs. */
function broken(panel) {
  const { spec } = panel;
  const seen = spec.broken.filter(([early, need]) => seenIn(panel, early) && seenIn(panel, need));
  const wrong = spec.wrong ?? seen.map(([early]) => early);
  const outlines = [...new Set(wrong)].map((index) => outline(boxOf(panel, index), panel, "ge-wrong"));
  return outlines.join("") + seen.map(([early, need, turn]) => arrowMarkup(panel.lanes, boxOf(panel, early), boxOf(panel, need), turn)).join("");
}

function seenIn({ spec, frame }, index) {
  return spec.stop[index] > frame.from && spec.start[index] < frame.to;
}

/** The chain of ops that sets the makespan, near the lower edge of its boxes, under their labels. */
function route(panel) {
  const points = panel.spec.critical.flatMap((index) => {
    const box = boxOf(panel, index);
    return [box.x, box.x + box.width].map((x) => `${px(x)} ${px(box.y + box.height - (panel.thin ? 2 : 5))}`);
  });
  if (!points.length) return "";
  const path = `M${points.join("L")}`;
  return `<g clip-path="inset(0)"><path class="ge-route-rim" d="${path}"/><path class="ge-route" d="${path}"/></g>`;
}
