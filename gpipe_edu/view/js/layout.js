// Where everything is: the twin of layout.py, pure functions from specs to pixels.
// A golden file that both sides' tests read keeps the still picture and the page alike.

import { amount, labelFont, numberFont, px, textWidth, tickStep } from "./lettering.js";

const EDGE = 12;
const NARROW = 480; // as in layout.py
const LANE = 14;
const NOTE = 13;
const STRIP = 26;
const RIBBON = 10;
const TICK_ROOM = 64;
const ROOMY = 7; // lanes, as in layout.py
const ARROWS = 26; // between two lanes, where arrows along a lane have their bend, as in stuck.py
const LINK = 12;
const WIRE = 8;
export const LINK_NOTE = 11;

/** Where lanes begin, before the first one: room for "update" and "peak in flight". */
const TOP = 20;

/** The stages of a device, unless they follow from its number. */
export function stageNote(device, stages) {
  if (!stages.length || (stages.length === 1 && stages[0] === device)) return "";
  const listed = stages.length <= 4 ? stages.join(", ") : `${stages[0]}, ${stages[1]}, … ${stages.at(-1)}`;
  return `stage${stages.length > 1 ? "s" : ""} ${listed}`;
}

/** Whether a chart is as narrow as on a phone: then time gets the room that names of lanes and memory would take. */
export function isNarrow({ width }) {
  return width < NARROW;
}

/** The heading of the numbers right of the lanes; a phone has room for one word. */
export function peaksTitle(frame) {
  return isNarrow(frame) ? "peak" : "peak in flight";
}

/** A narrow chart says "device" once, above all lanes. */
export function deviceName(device, frame) {
  return isNarrow(frame) ? String(device) : `device ${device}`;
}

/** The label of a memory strip. */
export function holdsNote(spec, device) {
  return `holds ≤ ${amount(Math.max(0, ...spec.memory[device][1]))}`;
}

/** The label of the row of a link. */
export function linkNote(target, frame) {
  return isNarrow(frame) ? `to ${target}` : `link to ${target}`;
}

/** The axis that all specs share. from, to: the part of the time that is in view, all of it if not given; memory: with strips. */
export function frameOf(specs, width, { from = 0, to = null, memory = false } = {}) {
  const thin = specs.reduce((lanes, { K }) => lanes + K, 0) > ROOMY;
  const narrow = isNarrow({ width });
  const edge = narrow ? 4 : EDGE;
  let names = 0;
  for (const spec of specs) {
    spec.stages.forEach((stages, device) => {
      const note = stageNote(device, stages);
      names = Math.max(names, textWidth(deviceName(device, { width }), LANE));
      names = Math.max(names, textWidth(thin && note ? `${device}: ${note}` : note, NOTE));
      if (memory && !spec.stops && !narrow) names = Math.max(names, textWidth(holdsNote(spec, device), NOTE));
    });
    if (narrow) for (const target of spec.messages.target) names = Math.max(names, textWidth(linkNote(target, { width }), LINK_NOTE));
    if (narrow && spec.plan) names = Math.max(names, textWidth("plan", NOTE));
  }
  const longest = Math.max(...specs.map(endOf));
  const left = edge + names + 8;
  const right = width - edge - textWidth(peaksTitle({ width }), NOTE) - (narrow ? 16 : 20);
  const end = to ?? longest;
  const scale = end > from ? (right - left) / (end - from) : 0;
  return { width, left, right, longest, from, to: end, scale, thin, edge };
}

/** When the last thing in a chart ends: where a run is drawn under its plan, that may be the plan. */
export function endOf({ end, plan }) {
  return Math.max(end, plan?.end ?? 0);
}

/** The position of `time`. */
export function xOf(frame, time) {
  return frame.left + (time - frame.from) * frame.scale;
}

/** The time at `x`, kept within the step. */
export function timeAt(frame, x) {
  if (!frame.scale) return 0;
  return Math.min(frame.longest, Math.max(0, frame.from + (x - frame.left) / frame.scale));
}

/**
 * The lanes of one spec; y counts from the panel's top. strips: whether those of memory are wanted. most: what the full
 * height of one stands for, one number for all specs of a chart, or two of the same height would mean different amounts.
 */
export function panelOf(spec, frame, strips, most = tallest([spec])) {
  const memory = strips && !spec.stops;
  const height = frame.thin ? 22 : 30;
  const plain = frame.thin ? 3 : 5;
  const space = spec.stops ? ARROWS : plain;
  const ribbon = spec.plan ? RIBBON + 2 : 0;
  let next = TOP;
  const carried = linksOf(spec);
  const lanes = spec.stages.map((stages, device) => {
    const y = next + ribbon;
    const links = carried[device].map((link, row) => ({ ...link, y: y + height + row * LINK }));
    const below = y + height + links.length * LINK;
    next = below + (memory ? STRIP + 4 : 0) + space;
    return { device, y, height, links, strip: memory ? below : null, note: stageNote(device, stages) };
  });
  const end = next - space;
  const panel = { spec, frame, lanes, thin: frame.thin, memory, height: end + (spec.stops ? ARROWS / 2 : 6) };
  panel.flush = spec.flush.map((time) => ({ x: xOf(frame, time) + 1, top: TOP - 3, bottom: end + 3, width: 6 }));
  panel.tallest = memory ? most : 0;
  return panel;
}

/** The most that any device holds, or may hold. */
export function tallest(specs) {
  let most = 0;
  for (const spec of specs) {
    most = Math.max(most, spec.cap ?? 0);
    for (const [, held] of spec.memory) for (const level of held) most = Math.max(most, level);
  }
  return most;
}

/** The box of op number `index`. */
export function boxOf(panel, index) {
  const { spec, frame } = panel;
  const lane = panel.lanes[deviceOf(spec, index)];
  const x = xOf(frame, spec.start[index]);
  return { x, y: lane.y, width: (spec.stop[index] - spec.start[index]) * frame.scale, height: lane.height };
}

/** Where op number `index` of a run was planned: in the ribbon above its lane. */
export function planBoxOf(panel, index) {
  const { spec, frame } = panel;
  const planned = spec.planned[index];
  const [start, stop] = [spec.plan.start[planned], spec.plan.stop[planned]];
  const { y } = panel.lanes[deviceOf(spec, index)];
  return { x: xOf(frame, start), y: y - RIBBON - 2, width: (stop - start) * frame.scale, height: RIBBON };
}

/** The box of bubble number `index`. */
export function idleOf(panel, index) {
  const { spec, frame } = panel;
  const { device, start, stop } = spec.idle;
  const lane = panel.lanes[device[index]];
  const width = (stop[index] - start[index]) * frame.scale;
  return { x: xOf(frame, start[index]), y: lane.y, width, height: lane.height };
}

/** Per device its links, [{target, rows}]; rows: which messages of the spec each carries. */
function linksOf(spec) {
  const found = spec.stages.map(() => new Map());
  spec.messages.op.forEach((sender, row) => {
    const mine = found[deviceOf(spec, sender)];
    const target = spec.messages.target[row];
    if (!mine.has(target)) mine.set(target, []);
    mine.get(target).push(row);
  });
  return found.map((mine) => [...mine].map(([target, rows]) => ({ target, rows })).sort((one, two) => one.target - two.target));
}

/** The boxes of all messages on the links of one device, link after link: [{op, x, y, width, height}]. */
export function wiresOf(panel, device) {
  const { spec, frame, lanes } = panel;
  const { op, start, stop } = spec.messages;
  return lanes[device].links.flatMap(({ rows, y }) =>
    rows.map((row) => {
      const width = (stop[row] - start[row]) * frame.scale;
      return { op: op[row], x: xOf(frame, start[row]), y: y + (LINK - WIRE) / 2, width, height: WIRE };
    }),
  );
}

/** The middle of a link's row. */
export function linkMiddle({ y }) {
  return y + LINK / 2;
}

/** The device that runs op number `index`: ops are stored lane after lane. */
export function deviceOf(spec, index) {
  let low = 0;
  let high = spec.K - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (spec.first[middle] <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Whether it runs as one block with the op after it. */
export function beginsPair(spec, index) {
  return Boolean(spec.pairs?.includes(index));
}

/** The box around both ops of a pair. */
export function pairBoxOf(panel, index) {
  const [one, two] = [boxOf(panel, index), boxOf(panel, index + 1)];
  return { ...one, width: two.x + two.width - one.x };
}

/** When what op number `index` makes may be used: for a pair, when the whole block has ended. */
export function leavesAt(spec, index) {
  return spec.stop[beginsPair(spec, index) ? index + 1 : index];
}

/** Whether op number `index` is one at which its device stops, or one after it; only in a schedule that cannot run. */
export function neverRuns(spec, index) {
  return Boolean(spec.stops) && index >= spec.stops[deviceOf(spec, index)];
}

/** The pieces a box is painted in: a checkpointed backward has a recompute part and a backward part. */
export function partsOf(panel, index) {
  const { spec, frame } = panel;
  const { x, width } = boxOf(panel, index);
  if (neverRuns(spec, index)) return [{ kind: "never", x, width }];
  if (spec.kind[index] !== "C") return [{ kind: spec.kind[index], x, width }];
  const recompute = spec.recompute[index] * frame.scale;
  return [
    { kind: "R", x, width: recompute },
    { kind: "B", x: x + recompute, width: width - recompute },
  ];
}

/** The short name of op number `index`. */
export function labelOf(spec, index) {
  return spec.kind[index] + spec.micro_batch[index];
}

/** The label of its box, where it fits. */
export function boxLabel(spec, index) {
  return labelOf(spec, index) + (neverRuns(spec, index) ? "?" : "");
}

/**
 * The labels of one lane, [text, font] per op, the font 0 where none fits; one size per lane and kind, the smallest that
 * is needed. In a narrow chart a lane in which not all names fit has the numbers of its micro-batches.
 */
export function labelsOf(panel, device) {
  const { spec, frame } = panel;
  const ops = Array.from({ length: spec.first[device + 1] - spec.first[device] }, (_, number) => spec.first[device] + number);
  const room = (index) => (spec.stop[index] - spec.start[index] - (spec.kind[index] === "C" ? spec.recompute[index] : 0)) * frame.scale;
  let labels = ops.map((index) => [boxLabel(spec, index), labelFont(boxLabel(spec, index), room(index))]);
  const runs = (index) => !neverRuns(spec, index);
  if (isNarrow(frame) && ops.some((index, at) => runs(index) && !labels[at][1])) {
    const number = (index) => String(spec.micro_batch[index]);
    const numbered = (index) => [number(index), numberFont(number(index), room(index))];
    labels = labels.map((label, at) => (runs(ops[at]) ? numbered(ops[at]) : label));
  }
  const smallest = {};
  labels.forEach(([, font], at) => {
    const kind = spec.kind[ops[at]];
    if (font) smallest[kind] = Math.min(font, smallest[kind] ?? font);
  });
  return labels.map(([text, font], at) => [text, font ? smallest[spec.kind[ops[at]]] : 0]);
}

/** The memory of one device as a stepped line above the base of its strip. */
export function stripOf(panel, device) {
  const { spec, frame, lanes } = panel;
  const base = lanes[device].strip + STRIP;
  const unit = stripUnit(panel);
  const [times, held] = spec.memory[device];
  const points = [[xOf(frame, 0), base]];
  let before = 0;
  for (let index = 0; index <= times.length; index++) {
    const x = xOf(frame, index < times.length ? times[index] : spec.end);
    const level = index < times.length ? held[index] : 0;
    points.push([x, base - before * unit], [x, base - level * unit]);
    before = level;
  }
  return { base, points, peak: held.length ? Math.max(...held) : 0 };
}

/** Pixels per micro-batch held. */
export function stripUnit(panel) {
  return panel.tallest ? (STRIP - 3) / panel.tallest : 0;
}

/** The marks of the axis in view, in the unit that times are shown in. */
export function axisOf(frame, shown) {
  const [scale, unit] = shown;
  const most = Math.max(2, Math.trunc((frame.right - frame.left) / TICK_ROOM));
  const step = tickStep((frame.to - frame.from) * scale, most);
  const marks = [];
  const first = step ? Math.ceil((frame.from * scale) / step - 1e-9) : 0;
  const last = step ? Math.floor((frame.to * scale) / step + 1e-9) : 0;
  for (let number = first; number <= last; number++) {
    marks.push({ x: xOf(frame, (number * step) / scale), text: String(Number((number * step).toPrecision(6))) });
  }
  return { marks, unit: unit || "time", left: px(frame.left), right: px(frame.right) };
}
