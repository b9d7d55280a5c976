import assert from "node:assert/strict";
import { test } from "node:test";
import { arrowMarkup } from "../../../gpipe_edu/view/js/arrows.js";
import { draw } from "../../../gpipe_edu/view/js/draw.js";
import { frameOf, panelOf } from "../../../gpipe_edu/view/js/layout.js";
import { legendMarkup } from "../../../gpipe_edu/view/js/legend.js";
import { overlay, transfers } from "../../../gpipe_edu/view/js/overlay.js";
import { NAMES, opOf, specs, stuck } from "./specs.mjs";

const panelFor = (spec, width = 1000, from = 0, to = null) => panelOf(spec, frameOf([spec], width, { from, to, memory: true }), true);
const count = (text, pattern) => (text.match(pattern) ?? []).length;

test("a rectangle per op, two for a checkpointed backward, and a label where it fits", () => {
  const markup = draw(panelFor(specs.gpipe), "x");
  assert.equal(count(markup, /<rect class="ge-op/g), 64);
  assert.equal(count(markup, /class="ge-label/g), 64);
  const late = draw(panelFor(specs.late), "x");
  assert.equal(count(late, /<rect class="ge-op/g), 16 + 2 * 16);
  assert.equal(count(late, /class="ge-frame"/g), 16);
});

test("a pair that runs as one block has a frame, and the legend says so", () => {
  const [path] = draw(panelFor(specs.pairs), "x").match(/<path class="ge-pair" d="[^"]*"/g);
  assert.equal(count(path, /M/g), specs.pairs.pairs.length);
  assert.ok(specs.pairs.pairs.length > 0);
  const words = (spec) => legendMarkup([spec], NAMES, { memory: false, critical: false }, "x");
  assert.match(words(specs.pairs), /two run as one/);
  assert.doesNotMatch(words(specs.gpipe) + draw(panelFor(specs.gpipe), "x"), /two run as one|ge-pair/);
});

test("what never runs is an outline with a question mark, and arrows lead around the circle", () => {
  const panel = panelFor(stuck);
  const markup = draw(panel, "x");
  assert.equal(count(markup, /<rect class="ge-op ge-never"/g), 6);
  assert.equal(count(markup, /<rect class="ge-op ge-[FB]"/g), 2);
  assert.equal(count(markup, />[FB]\d\?</g), 6);
  assert.doesNotMatch(markup, /peak|undefined/);
  const over = overlay(panel, { active: null, selected: null, critical: false, focused: false, arrows: false }, "x", "");
  assert.deepEqual([/class="ge-wait"/g, /class="ge-turn"/g, /class="ge-wrong"/g].map((each) => count(over, each)), [2, 2, 4]);
  const words = legendMarkup([stuck], NAMES, { memory: false, critical: false }, "x");
  for (const said of ["never runs", "needs", "stands behind"]) assert.ok(words.includes(said), said);
  assert.doesNotMatch(words, /idle/);
  assert.doesNotMatch(legendMarkup([specs.gpipe], NAMES, { memory: false, critical: false }, "x"), /never|behind/);
});

test("a large step is one path per kind, and small neighbours of one kind become one piece", () => {
  const large = repeated(specs.gpipe, 10);
  const markup = draw(panelFor(large, 100000), "x");
  assert.equal(count(markup, /<rect class="ge-op/g), 0);
  const paths = [...markup.matchAll(/<path class="ge-op ge-(\w) ge-thin"[^>]* d="([^"]*)"/g)];
  assert.deepEqual(paths.map(([, kind]) => kind).sort(), ["B", "F"]);
  for (const [, , path] of paths) assert.equal(count(path, /M/g), 320);
  const tiny = draw(panelFor(large, 480), "x");
  const pieces = [...tiny.matchAll(/<path class="ge-op[^>]* d="([^"]*)"/g)].reduce((sum, [, path]) => sum + count(path, /M/g), 0);
  assert.ok(pieces < 640, `${pieces} pieces`);
});

test("names of patterns are those of the widget, and all that are used exist", () => {
  const markup = draw(panelFor(specs["early, without memory"]), "only-mine");
  const made = [...markup.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  const used = new Set([...markup.matchAll(/url\(#([^)]+)\)/g)].map(([, id]) => id));
  assert.ok(made.every((id) => id.endsWith("only-mine")));
  for (const id of used) assert.ok(made.includes(id));
  assert.equal(used.size, 2);
});

test("zoomed in, nothing stands outside the axis", () => {
  const panel = panelFor(specs.gpipe, 1000, 5, 12);
  const { left, right } = panel.frame;
  for (const [, x, width] of draw(panel, "x").matchAll(/<rect class="ge-op[^>]* x="([\d.-]+)" y="[\d.]+" width="([\d.]+)"/g)) {
    assert.ok(Number(x) >= left - 0.01 && Number(x) + Number(width) <= right + 0.01);
  }
});

test("arrows: every transfer of a small step, of a large one only the selected micro-batch's", () => {
  assert.equal(transfers(specs.late, null).length, 2 * 4 * 3);
  assert.deepEqual(transfers(specs.gpipe, null), []);
  const pairs = transfers(specs.gpipe, opOf(specs.gpipe, "F", 5, 2));
  assert.equal(pairs.length, 6);
  for (const pair of pairs) for (const op of pair) assert.equal(specs.gpipe.micro_batch[op], 5);
});

test("an arrow is long enough to be seen where no memory strip keeps the lanes apart", () => {
  for (const memory of [true, false]) {
    const panel = panelOf(specs.gpipe, frameOf([specs.gpipe], 1000, { memory }), memory);
    const selected = { type: "op", index: opOf(specs.gpipe, "F", 5, 2) };
    const markup = overlay(panel, { active: null, selected, critical: false, focused: false, arrows: true }, "m", "");
    const path = markup.match(/<path class="ge-arrow ge-strong" d="([^"]+)"/)[1];
    const lines = [...path.matchAll(/M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)/g)].map(([, ...numbers]) => numbers.map(Number));
    assert.equal(lines.length, 6);
    for (const [x1, y1, x2, y2] of lines) assert.ok(Math.hypot(x2 - x1, y2 - y1) > 18, `memory ${memory}: ${x1} ${y1} to ${x2} ${y2}`);
  }
});

test("looking at an op outlines it, its causes and what it unblocks", () => {
  const active = { type: "op", index: opOf(specs.gpipe, "F", 3, 1) };
  const state = { active, selected: null, critical: false, focused: true, arrows: false };
  const markup = overlay(panelFor(specs.gpipe), state, "x", 'say "it"');
  assert.equal(count(markup, /class="ge-need"/g), 1);
  assert.equal(count(markup, /class="ge-after"/g), 2);
  assert.match(markup, /class="ge-focus"[^>]* id="focus-x" role="img" aria-label="say &quot;it&quot;"/);
});

test("a memory cap is a line across every strip", () => {
  assert.equal(count(draw(panelFor({ ...specs.gpipe, cap: 5 }), "x"), /class="ge-cap"/g), 4);
  assert.equal(count(draw(panelFor(specs.gpipe), "x"), /class="ge-cap"/g), 0);
});

test("the legend names what is on the screen and nothing else", () => {
  const words = (...given) => [...legendMarkup(...given, "x").matchAll(/<\/svg> ([^<]+)</g)].map(([, found]) => found);
  assert.deepEqual(words([specs.gpipe], NAMES, { memory: false, critical: true }), [
    "F forward",
    "B backward",
    "bubble: the device is idle",
    "critical path",
  ]);
  const both = [{ ...specs["zero bubble"], cap: 4 }, specs.late];
  assert.deepEqual(words(both, NAMES, { memory: true, critical: false }), [
    "F forward",
    "C checkpointed backward",
    "I input gradient",
    "W weight gradient",
    "bubble: the device is idle",
    "activations held, in micro-batches",
    "memory cap",
  ]);
});

/** `spec` so many times after itself on every lane, as far as drawing is concerned. */
function repeated(spec, times) {
  const columns = { kind: "", micro_batch: [], stage: [], start: [], stop: [], first: [0] };
  for (let device = 0; device < spec.K; device++) {
    for (let round = 0; round < times; round++) {
      for (let index = spec.first[device]; index < spec.first[device + 1]; index++) {
        columns.kind += spec.kind[index];
        columns.micro_batch.push(spec.micro_batch[index]);
        columns.stage.push(spec.stage[index]);
        columns.start.push(spec.start[index] + round * spec.end);
        columns.stop.push(spec.stop[index] + round * spec.end);
      }
    }
    columns.first.push(columns.kind.length);
  }
  const needs = [columns.start.map(() => -1), columns.start.map(() => -1)];
  return { ...spec, ...columns, needs, end: spec.end * times };
}

test("arrows of what cannot run stay inside of the picture and off the names in the boxes", () => {
  const panel = panelFor(stuck);
  const over = overlay(panel, { active: null, selected: null, critical: false, focused: false, arrows: false }, "x", "");
  const lines = [...over.matchAll(/class="ge-(?:wait|turn)" d="M([^"]+)"/g)].map(([, path]) => path.split("L").map((point) => Number(point.split(" ")[1])));
  assert.equal(lines.length, 4);
  for (const lane of panel.lanes) {
    for (const y of lines.flat()) assert.ok(y > 0 && y < panel.height && (y <= lane.y || y >= lane.y + lane.height), `${y}`);
  }
});

test("an arrow past a lane keeps off the middle of its ops, one to the next lane does not", () => {
  const lanes = [0, 40, 80].map((y) => ({ y }));
  const box = (x, y) => ({ x, y, width: 20, height: 14 });
  assert.match(arrowMarkup(lanes, box(0, 0), box(100, 80)), /d="M16 14L116 80"/);
  assert.match(arrowMarkup(lanes, box(100, 80), box(0, 0)), /d="M116 80L16 14"/);
  assert.match(arrowMarkup(lanes, box(0, 0), box(100, 40)), /d="M10 14L110 40"/);
  assert.match(arrowMarkup(lanes, box(0, 40), box(100, 80)), /d="M10 54L110 80"/);
});
