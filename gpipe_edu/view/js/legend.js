// What the colours and lines mean: only those that are on the screen. Markup only.

import { patterns } from "./draw.js";
import { neverRuns } from "./layout.js";
import { escape } from "./lettering.js";

/** names: what the letters of ops stand for. options: {memory, critical}, what else is shown; unit: of the memory. */
export function legendMarkup(specs, names, { memory, critical, unit = "" }, mark) {
  const present = new Set(specs.flatMap((spec) => [...spec.kind].filter((_, index) => !neverRuns(spec, index))));
  const kinds = Object.keys(names).filter((kind) => present.has(kind));
  const items = kinds.map((kind) => sample(swatch(kind, mark), `${kind} ${names[kind]}`));
  const bubble = `<rect class="ge-bubble ge-edge" x=".5" y=".5" width="25" height="15" fill="url(#hatch-${mark})"/>`;
  if (specs.some(({ stops }) => !stops)) items.push(sample(bubble, "bubble: the device is idle"));
  const stuck = specs.filter(({ stops }) => stops);
  if (stuck.length) items.push(sample(`<rect class="ge-op ge-never" x=".5" y=".5" width="25" height="15"/>`, "never runs"));
  if (specs.some(({ pairs }) => pairs)) items.push(sample(`<rect class="ge-pair" x="1" y="1" width="24" height="14"/>`, "two run as one"));
  if (specs.some(({ messages }) => messages?.op.length)) {
    items.push(sample(`<rect class="ge-wire ge-F" x=".5" y="4" width="25" height="8"/>`, "message on its link"));
  }
  const store = `<path class="ge-store" d="M.5 15.5V8H9V2H18V9H25.5V15.5z"/>`;
  if (memory) items.push(sample(store, unit ? `activations held, in ${unit}` : held(specs)));
  if (memory && specs.some(({ cap }) => cap !== null)) items.push(sample(`<path class="ge-cap" d="M1 8H25"/>`, "memory cap"));
  const arrows = specs.flatMap(({ broken }) => broken ?? []);
  if (arrows.some(([, , turn]) => !turn)) items.push(sample(arrow("ge-wait"), stuck[0]?.rule ?? "needs"));
  if (arrows.some(([, , turn]) => turn)) items.push(sample(arrow("ge-turn"), "stands behind"));
  if (critical) items.push(sample(`<path class="ge-route" d="M1 8H25"/>`, "critical path"));
  return `<svg width="0" height="0" aria-hidden="true">${patterns(mark)}</svg><ul>${items.join("")}</ul>`;
}

/** What a memory strip counts: where a device has several stages, a micro-batch on one of them is only a part. */
function held(specs) {
  const several = specs.some(({ stages }) => stages.some((list) => list.length > 1));
  return several ? "held, in micro-batches (all its stages)" : "activations held, in micro-batches";
}

function arrow(look) {
  return `<path class="${look}" d="M1 8H18"/><path class="ge-tip" d="M25 8l-8 -4v8z"/>`;
}

function sample(inside, words) {
  return `<li><svg width="26" height="16" aria-hidden="true">${inside}</svg> ${escape(words)}</li>`;
}

function swatch(kind, mark) {
  return kind === "C" ? box("R", 0.5, 9, mark) + box("B", 9.5, 16, mark) : box(kind, 0.5, 25, mark);
}

function box(kind, x, width, mark) {
  const fill = kind === "R" ? ` fill="url(#dots-${mark})"` : "";
  return `<rect class="ge-op ge-${kind}" x="${x}" y=".5" width="${width}" height="15"${fill}/>`;
}
