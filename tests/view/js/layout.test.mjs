// The page's geometry against the still picture's: both must agree with golden.json, which layout.py wrote.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as layout from "../../../gpipe_edu/view/js/layout.js";
import { labelFont, showTime, textWidth, ticks } from "../../../gpipe_edu/view/js/lettering.js";

const golden = JSON.parse(readFileSync(new URL("../golden.json", import.meta.url), "utf8"));

function near(found, wanted, what) {
  if (Array.isArray(wanted)) {
    assert.equal(found.length, wanted.length, what);
    wanted.forEach((value, index) => near(found[index], value, `${what}[${index}]`));
  } else if (typeof wanted === "number") {
    assert.ok(Math.abs(found - wanted) <= 1e-6 * Math.max(1, Math.abs(wanted)), `${what}: ${found}, not ${wanted}`);
  } else assert.equal(found, wanted, what);
}

for (const [name, wanted] of Object.entries(golden.cases)) {
  test(`the geometry of ${name}`, () => {
    const { spec } = wanted;
    const frame = layout.frameOf([spec], wanted.width, wanted);
    const panel = layout.panelOf(spec, frame, wanted.memory);
    const ops = [...spec.kind].map((_, index) => index);
    const flat = ({ x, y, width, height }) => [x, y, width, height];
    near([frame.left, frame.right], wanted.axis, "axis");
    near(layout.axisOf(frame, spec.shown).marks.map(({ x }) => x), wanted.ticks, "ticks");
    near(panel.lanes.map(({ y, height }) => [y, height]), wanted.lanes, "lanes");
    near(ops.map((op) => flat(layout.boxOf(panel, op))), wanted.boxes, "boxes");
    near(ops.map((op) => layout.partsOf(panel, op).map(({ kind, x, width }) => [kind, x, width])), wanted.parts, "parts");
    near((spec.pairs ?? []).map((index) => flat(layout.pairBoxOf(panel, index))), wanted.frames, "frames");
    near(spec.idle.start.map((_, index) => flat(layout.idleOf(panel, index))), wanted.idles, "idles");
    const wires = spec.stages.flatMap((_, device) => layout.wiresOf(panel, device));
    near(wires.map(flat), wanted.wires, "wires");
    near(panel.flush.map(({ x, top, bottom, width }) => [x, top, bottom, width]), wanted.flush, "flush");
    const found = spec.stages.flatMap((_, device) => layout.labelsOf(panel, device));
    near(found.map(([text, font]) => [font ? text : "", font]), wanted.labels, "labels");
    const strips = wanted.memory ? spec.stages.map((_, device) => layout.stripOf(panel, device).points) : [];
    near(strips, wanted.strips, "strips");
  });
}

test("the geometry of what cannot run", () => {
  const { spec, width, boxes, labels } = golden.stuck;
  const panel = layout.panelOf(spec, layout.frameOf([spec], width, { memory: true }), true);
  const ops = [...spec.kind].map((_, index) => index);
  const top = panel.lanes[0].y;
  near(ops.map((op) => layout.boxOf(panel, op)).map(({ x, y, width, height }) => [x, y - top, width, height]), boxes, "boxes");
  near(ops.map((op) => layout.boxLabel(spec, op)), labels, "labels");
  assert.equal(panel.memory, false, "it has no strips");
});

test("label sizes, text widths, ticks and times are those of Python", () => {
  for (const [label, width, font] of golden.fonts) near(labelFont(label, width), font, `${label} in ${width}`);
  for (const [text, font, width] of golden.widths) near(textWidth(text, font), width, text);
  for (const [longest, most, marks] of golden.ticks) near(ticks(longest, most), marks, `ticks of ${longest}`);
  for (const [time, shown, words] of golden.times) assert.equal(showTime(time, shown), words);
});

test("a zoomed axis shows only the ticks in view, at the same times", () => {
  const { spec } = golden.cases.gpipe;
  const frame = layout.frameOf([spec], 1000, { from: 10, to: 16 });
  const { marks } = layout.axisOf(frame, spec.shown);
  assert.ok(marks.length >= 4);
  for (const { x, text } of marks) near(x, layout.xOf(frame, Number(text)), text);
  near(layout.timeAt(frame, layout.xOf(frame, 12)), 12, "there and back");
});

test("several specs share one axis: the longest fills it", () => {
  const [one, two] = [golden.cases.gpipe.spec, golden.cases["zero bubble"].spec];
  const frame = layout.frameOf([one, two], 1000);
  assert.equal(frame.longest, Math.max(one.end, two.end));
  near(layout.xOf(frame, frame.longest), frame.right, "end");
});

test("many lanes are lower, in one chart or in several, as in layout.py", () => {
  const four = golden.cases.gpipe.spec;
  const height = (specs) => layout.panelOf(four, layout.frameOf(specs, 1000), false).lanes[0].height;
  assert.deepEqual([height([four]), height([four, four])], [30, golden.cases["thin lanes"].lanes[0][1]]);
});
