// Where one is on the board and where things go: pure functions on places. A place is {device, at}: before the op that
// stands `at` there, counted from 0; behind the last op where `at` is the number of ops. Rules are Python's.

/** The parts of an op's name, such as "F0@2". */
export function opParts(op) {
  const [, kind, microBatch, stage] = op.match(/^([A-Z])(\d+)@(\d+)$/);
  return { kind, microBatch: Number(microBatch), stage: Number(stage) };
}

/** What is written on a box or a button: the stage only where a device holds several. */
export function opLabel(op, several) {
  return several ? op : op.split("@")[0];
}

/** An op in words. names: what the letters stand for. */
export function opWords(op, names) {
  const { kind, microBatch, stage } = opParts(op);
  return `${names[kind]} of micro-batch ${microBatch}, stage ${stage}`;
}

/** The number of boxes ({x, width}, from left to right) that something dropped at `x` goes behind. */
export function gapAt(boxes, x) {
  return boxes.filter((box) => box.x + box.width / 2 < x).length;
}

/** `to` of a move from one place to another: places are counted without the op that moves. */
export function landing(from, to) {
  return from.device === to.device && to.at > from.at ? to.at - 1 : to.at;
}

/** True if a move would change nothing. */
export function stays(from, to) {
  return from.device === to.device && (to.at === from.at || to.at === from.at + 1);
}

/** Where the action of a key leads. lanes: per device its ops as {start, end}; up and down keep to the same time. */
export function walk(lanes, { device, at }, act) {
  const count = lanes[device].length;
  const along = { left: at - 1, right: at + 1, first: 0, last: count }[act];
  if (along !== undefined) return { device, at: Math.min(count, Math.max(0, along)) };
  const next = device + { up: -1, down: 1 }[act];
  if (!lanes[next]) return { device, at };
  if (at === count) return { device: next, at: lanes[next].length };
  const middle = (lanes[device][at].start + lanes[device][at].end) / 2;
  const found = lanes[next].findIndex(({ end }) => end > middle);
  return { device: next, at: found < 0 ? lanes[next].length : found };
}

/** `place`, or the nearest there is. */
export function within(lengths, { device, at }) {
  const lane = Math.min(device, lengths.length - 1);
  return { device: lane, at: Math.min(at, lengths[lane]) };
}

/** The button that the action of a key leads to. counts: buttons per device; some may have none. */
export function rove(counts, { device, at }, act) {
  const along = { left: at - 1, right: at + 1, first: 0, last: Infinity }[act];
  if (along !== undefined) return { device, at: Math.min(counts[device] - 1, Math.max(0, along)) };
  const step = act === "up" ? -1 : 1;
  for (let next = device + step; next >= 0 && next < counts.length; next += step) {
    if (counts[next]) return { device: next, at: Math.min(counts[next] - 1, at) };
  }
  return { device, at };
}

/** The button to focus when the one at a place may be gone: beside it, else on a later device, else the last; or null. */
export function nearestButton(counts, { device, at }) {
  if (counts[device]) return { device, at: Math.min(counts[device] - 1, at) };
  const others = counts.map((count, lane) => [count, lane]).filter(([count]) => count);
  const [, lane] = others.find(([, one]) => one > device) ?? others.at(-1) ?? [];
  return lane === undefined ? null : { device: lane, at: 0 };
}

const LEAST_GHOST = 15; // pixels; where many stand one below the other, they reach into the memory strip

/** Boxes of the ghosts, those that overlap in time one below the other. top(device), height, xOf: where lanes stand. */
export function ghostBoxes(ghosts, { top, height, xOf }) {
  const rows = new Map(); // per device, the end of the last ghost of every row
  const placed = [...ghosts]
    .sort((one, two) => one.start - two.start)
    .map((ghost) => {
      const ends = rows.get(ghost.device) ?? [];
      rows.set(ghost.device, ends);
      const free = ends.findIndex((end) => end <= ghost.start);
      const row = free < 0 ? ends.length : free;
      ends[row] = ghost.end;
      return { ghost, row };
    });
  return placed.map(({ ghost, row }) => {
    const share = Math.max(LEAST_GHOST, height / rows.get(ghost.device).length);
    const x = xOf(ghost.start);
    return { ...ghost, x, y: top(ghost.device) + row * share, width: xOf(ghost.end) - x, height: share };
  });
}

/** A sentence of Python's for the page, with a full stop. */
export function sentence(text) {
  return text && !/[.!?]$/.test(text) ? `${text}.` : text;
}

/** What a level's button is called. */
export function levelWords({ title, best, hinted }, number) {
  const hints = hinted ? ` and ${hinted} hint${hinted === 1 ? "" : "s"}` : "";
  const state = best !== null ? `solved with makespan ${best}${hints}` : "not solved";
  return `${number}: ${title}, ${state}`;
}
