// A run over its plan: who is a pair, where the plan stands, what is said of an op.
import assert from "node:assert/strict";
import { test } from "node:test";
import { draw } from "../../../gpipe_edu/view/js/draw.js";
import { explain } from "../../../gpipe_edu/view/js/explain.js";
import { boxOf, frameOf, panelOf, planBoxOf } from "../../../gpipe_edu/view/js/layout.js";
import { overlaid } from "../../../gpipe_edu/view/js/overlaid.js";
import { NAMES, opOf, specs } from "./specs.mjs";

const plan = specs.gpipe;
const stretch = (list) => list.map((time) => time * 1.5);
const late = { ...plan, source: "measured", start: stretch(plan.start), stop: stretch(plan.stop), end: plan.end * 1.5 };
late.heading = ["a run", "measured, time in cost units", "4 devices, 8 micro-batches"];

/** The ops of each lane the other way round: the same ops at other places of the columns. */
function reversed(spec) {
  const order = spec.stages.flatMap((_, device) => spec.stage.map((_, op) => op).slice(spec.first[device], spec.first[device + 1]).reverse());
  const columns = ["stage", "micro_batch", "start", "stop"].map((name) => [name, order.map((op) => spec[name][op])]);
  return { ...spec, kind: order.map((op) => spec.kind[op]).join(""), ...Object.fromEntries(columns) };
}

test("the same ops on the same devices are a pair, whichever comes first", () => {
  for (const given of [[plan, late], [late, plan]]) {
    const [run, ...rest] = overlaid(given);
    assert.equal(rest.length, 0);
    assert.equal(run.plan, plan);
    assert.equal(run.heading[1], "measured under its plan, time in cost units");
    assert.equal(run.figures.at(-1), "plan 33");
  }
  assert.equal(overlaid([specs["zero bubble"], plan, late]).length, 2, "what belongs to no pair stays");
});

test("other ops, other devices, other units and two plans are none", () => {
  assert.equal(overlaid([plan]), null);
  assert.equal(overlaid([plan, plan]), null);
  assert.equal(overlaid([late, late]), null);
  assert.equal(overlaid([plan, { ...late, unit: "s" }]), null);
  assert.equal(overlaid([specs["zero bubble"], late]), null);
  assert.equal(overlaid([plan, { ...late, micro_batch: late.micro_batch.map((m) => 7 - m).with(0, 0) }]), null);
  assert.equal(overlaid([plan, { ...late, stage: late.stage.map((stage) => 3 - stage) }]), null, "stages elsewhere");
  const first = late.first.with(1, late.first[1] - 1);
  assert.equal(overlaid([plan, { ...late, first }]), null, "one op of device 0 on device 1");
});

test("the plan stands above its lane at its own times, op by op", () => {
  const [run] = overlaid([reversed(plan), late]);
  const frame = frameOf([run], 1000);
  assert.equal(frame.longest, late.end);
  const panel = panelOf(run, frame, true);
  for (const index of run.stage.keys()) {
    const [box, planned] = [boxOf(panel, index), planBoxOf(panel, index)];
    assert.ok(Math.abs(planned.x - frame.left - plan.start[index] * frame.scale) < 1e-9);
    assert.ok(Math.abs(planned.width * 1.5 - box.width) < 1e-9);
    assert.ok(planned.y + planned.height < box.y);
    assert.ok(planned.y >= 20 && !panel.lanes.some(({ strip }) => planned.y < strip + 26 && planned.y + planned.height > strip));
  }
  assert.equal(draw(panel, "m").match(/class="ge-plan /g).length, 2, "a path for F and one for B");
});

test("a run that is quicker than its plan leaves room for the plan", () => {
  const [run] = overlaid([{ ...plan, end: 99 }, late]);
  assert.equal(frameOf([run], 1000).longest, 99);
});

test("an op tells how it differs from its plan", () => {
  const [run] = overlaid([plan, late]);
  const of = (kind, m, k) => explain(run, { type: "op", index: opOf(run, kind, m, k) }, NAMES).lines[0].split(". ").at(-1);
  assert.equal(of("F", 2, 0), "Planned from 2 to 3: it started 1 later and it took 0.5 longer.");
  assert.equal(of("F", 0, 0), "Planned from 0 to 1: it took 0.5 longer.");
  const [same] = overlaid([plan, { ...plan, source: "measured" }]);
  assert.equal(explain(same, { type: "op", index: 3 }, NAMES).lines[0].split(". ").at(-1), "Planned from 3 to 4: it ran as planned.");
});
