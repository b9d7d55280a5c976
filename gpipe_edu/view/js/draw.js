// The chart as markup: a pure function from a panel (layout.js) to the inside of an <svg>.
// A rectangle per op up to MOST_RECTS ops, one path per kind from there on: browsers slow down otherwise.

import { escape, px } from "./lettering.js";
import { boxOf, deviceName, holdsNote, idleOf, isNarrow, labelsOf, linkMiddle, linkNote, partsOf, peaksTitle, planBoxOf } from "./layout.js";
import { pairBoxOf, stripOf, stripUnit, wiresOf } from "./layout.js";

export const MOST_RECTS = 300;

/** Below this width (pixels) boxes have no outline, and neighbours of one kind are painted as one. */
const SMEAR = 2.5;

/** The patterns that `panel` needs; `mark` makes their names unique on a page. */
export function patterns(mark) {
  return (
    `<defs><pattern id="hatch-${mark}" width="7" height="7" patternUnits="userSpaceOnUse" ` +
    `patternTransform="rotate(45)"><rect class="ge-paper" width="7" height="7"/>` +
    `<path class="ge-hatch" d="M.75 0V7"/></pattern>` +
    `<pattern id="dots-${mark}" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="ge-R" width="6" ` +
    `height="6"/><circle class="ge-dot" cx="1.5" cy="1.5" r=".9"/><circle class="ge-dot" cx="4.5" cy="4.5" r=".9"/>` +
    `</pattern></defs>`
  );
}

/** Everything that stays still while the cursor moves. */
export function draw(panel, mark) {
  const shown = inView(panel);
  const ops = shown.length < MOST_RECTS ? single(panel, shown, mark) : merged(panel, shown, mark);
  return patterns(mark) + bubbles(panel, mark) + ops + ribbons(panel) + labels(panel) + wires(panel) + strips(panel) + flushes(panel) + words(panel);
}

/** The ops of which any part lies between the ends of the axis. */
function inView({ spec, frame }) {
  const found = [];
  for (let index = 0; index < spec.kind.length; index++) {
    if (spec.stop[index] >= frame.from && spec.start[index] <= frame.to) found.push(index);
  }
  return found;
}

function clipped(frame, x, width) {
  const from = Math.max(x, frame.left);
  return [from, Math.min(x + width, frame.right) - from];
}

function area(x, y, width, height) {
  return `M${px(x)} ${px(y)}h${px(width)}v${px(height)}h${px(-width)}z`;
}

function bubbles(panel, mark) {
  let path = "";
  for (let index = 0; index < panel.spec.idle.start.length; index++) {
    const box = idleOf(panel, index);
    const [x, width] = clipped(panel.frame, box.x, box.width);
    if (width > 0) path += area(x, box.y, width, box.height);
  }
  return `<path class="ge-bubble" d="${path}" fill="url(#hatch-${mark})"/>`;
}

function fill(kind, mark) {
  return kind === "R" ? ` fill="url(#dots-${mark})"` : "";
}

function single(panel, shown, mark) {
  let markup = "";
  for (const index of shown) {
    const box = boxOf(panel, index);
    const parts = partsOf(panel, index);
    for (const part of parts) {
      const [x, width] = clipped(panel.frame, part.x, part.width);
      if (width < 0) continue;
      markup +=
        `<rect class="ge-op ge-${part.kind}${part.width < 5 ? " ge-thin" : ""}" data-op="${index}" x="${px(x)}" ` +
        `y="${px(box.y)}" width="${px(width)}" height="${px(box.height)}"${fill(part.kind, mark)}/>`;
    }
    if (parts.length > 1) {
      const [x, width] = clipped(panel.frame, box.x, box.width);
      if (width > 0) markup += `<path class="ge-frame" d="${area(x, box.y, width, box.height)}"/>`;
    }
  }
  return markup + frames(panel, shown);
}

/** Around the two ops of each pair that runs as one block. */
function frames(panel, shown) {
  const seen = new Set(shown);
  const blocks = (panel.spec.pairs ?? []).filter((index) => seen.has(index) || seen.has(index + 1));
  const path = blocks.map((index) => {
    const box = pairBoxOf(panel, index);
    const [x, width] = clipped(panel.frame, box.x, box.width);
    return width > 0 ? area(x, box.y, width, box.height) : "";
  });
  return blocks.length ? `<path class="ge-pair" d="${path.join("")}"/>` : "";
}

function merged(panel, shown, mark) {
  const paths = {}; // by class: outlines would hide what is smaller than they are
  let open = null; // the piece that the next op may still make longer
  const close = () => {
    if (open) {
      const look = `ge-${open.kind} ge-${open.small ? "tiny" : "thin"}`;
      paths[look] ??= { kind: open.kind, path: "" };
      paths[look].path += area(open.x, open.y, open.width, open.height);
    }
    open = null;
  };
  for (const index of shown) {
    const box = boxOf(panel, index);
    for (const part of partsOf(panel, index)) {
      const [x, width] = clipped(panel.frame, part.x, part.width);
      if (width < 0) continue;
      const small = part.width < SMEAR;
      const touches = open && open.kind === part.kind && open.y === box.y && x - open.x - open.width < 0.01;
      if (small && touches && open.small) {
        open.width = x + width - open.x;
        continue;
      }
      close();
      open = { kind: part.kind, x, y: box.y, width, height: box.height, small };
    }
  }
  close();
  return Object.entries(paths)
    .map(([look, { kind, path }]) => `<path class="ge-op ${look}" data-kind="${kind}" d="${path}"${fill(kind, mark)}/>`)
    .join("");
}

/** The plan of a run, above its lanes: a path per kind, since an op has no room for a name there anyway. */
function ribbons(panel) {
  if (!panel.spec.plan) return "";
  const paths = {};
  for (let index = 0; index < panel.spec.kind.length; index++) {
    const box = planBoxOf(panel, index);
    const [x, width] = clipped(panel.frame, box.x, box.width);
    const kind = panel.spec.kind[index];
    if (width >= 0) paths[kind] = (paths[kind] ?? "") + area(x, box.y, width, box.height);
  }
  return Object.entries(paths)
    .map(([kind, path]) => `<path class="ge-plan ge-${kind === "C" ? "B" : kind}" d="${path}"/>`)
    .join("");
}

function labels(panel) {
  const { spec, frame } = panel;
  let markup = "";
  for (const lane of panel.lanes) {
    labelsOf(panel, lane.device).forEach(([label, font], number) => {
      if (!font) return;
      const index = spec.first[lane.device] + number;
      const part = partsOf(panel, index).at(-1);
      const middle = part.x + part.width / 2;
      if (part.x < frame.left - 1 || part.x + part.width > frame.right + 1) return;
      markup +=
        `<text class="ge-label ge-on-${part.kind === "never" ? "never" : spec.kind[index]}" x="${px(middle)}" y="${px(lane.y + lane.height / 2)}" ` +
        `dy=".36em" font-size="${px(font)}">${label}</text>`;
    });
  }
  return markup;
}

/** Messages on their links: a path per kind of op that sends. */
function wires(panel) {
  const paths = {};
  for (const { device, links } of panel.lanes) {
    if (!links.length) continue;
    for (const { op, ...box } of wiresOf(panel, device)) {
      const [x, width] = clipped(panel.frame, box.x, box.width);
      const kind = panel.spec.kind[op] === "C" ? "B" : panel.spec.kind[op];
      if (width >= 0) paths[kind] = (paths[kind] ?? "") + area(x, box.y, width, box.height);
    }
  }
  return Object.entries(paths)
    .map(([kind, path]) => `<path class="ge-wire ge-${kind}" d="${path}"/>`)
    .join("");
}

function strips(panel) {
  if (!panel.memory) return "";
  const { spec, frame } = panel;
  let markup = "";
  for (const { device } of panel.lanes) {
    const { base, points } = stripOf(panel, device);
    markup += `<path class="ge-store" d="M${frame.left} ${base}${stepped(points, frame)}V${base}z"/>`;
    if (spec.cap !== null) {
      const y = px(base - spec.cap * stripUnit(panel));
      markup += `<path class="ge-cap" d="M${px(frame.left)} ${y}H${px(frame.right)}"/>`;
    }
  }
  return markup;
}

/** A stepped line within the axis; what is narrower than a quarter of a pixel becomes one column up to its top. */
function stepped(points, frame) {
  let path = "";
  let column = -Infinity;
  let top = Infinity;
  for (const [x, y] of points) {
    const here = Math.min(frame.right, Math.max(frame.left, x));
    if (here - column < 0.25 && y >= top && points.length > 1000) continue;
    top = here - column < 0.25 ? Math.min(top, y) : y;
    column = here - column < 0.25 ? column : here;
    path += `L${px(here)} ${px(y)}`;
  }
  return path;
}

function flushes({ flush, frame }) {
  return flush
    .filter(({ x }) => x <= frame.right + 2)
    .map((bar) => `<rect class="ge-flush" x="${px(bar.x)}" y="${bar.top}" width="${bar.width}" height="${bar.bottom - bar.top}"/>`)
    .join("");
}

function text(kind, x, y, anchor, words) {
  return `<text class="ge-${kind}" x="${px(x)}" y="${px(y)}" dy=".36em" text-anchor="${anchor}">${escape(words)}</text>`;
}

function words(panel) {
  const { spec, frame, lanes } = panel;
  const x = frame.left - 8;
  const edge = frame.width - frame.edge;
  let markup = spec.stops ? "" : text("note", edge, 9, "end", peaksTitle(frame));
  if (isNarrow(frame)) markup += text("note", frame.edge, 9, "start", "device");
  for (const bar of panel.flush) if (bar.x <= frame.right + 2) markup += text("note", bar.x + 6, 9, "end", "update");
  for (const lane of lanes) {
    const middle = lane.y + lane.height / 2;
    if (spec.plan) markup += text("note", frame.left - 8, lane.y - 7, "end", "plan");
    if (panel.thin && lane.note) markup += text("lane ge-small", x, middle, "end", `${lane.device}: ${lane.note}`);
    else {
      markup += text("lane", x, middle - (lane.note ? 8 : 0), "end", deviceName(lane.device, frame));
      if (lane.note) markup += text("note", x, middle + 8, "end", lane.note);
    }
    if (!spec.stops) markup += text("lane", edge, middle, "end", String(spec.peaks[lane.device]));
    for (const link of lane.links) markup += text("note ge-link", x, linkMiddle(link), "end", linkNote(link.target, frame));
    if (panel.memory && !isNarrow(frame)) markup += text("note", x, lane.strip + 13, "end", holdsNote(spec, lane.device));
  }
  return markup;
}
