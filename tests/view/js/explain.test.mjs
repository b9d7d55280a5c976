import assert from "node:assert/strict";
import { test } from "node:test";
import { explain, nameOf } from "../../../gpipe_edu/view/js/explain.js";
import { idleRows, tableMarkup, tableRows } from "../../../gpipe_edu/view/js/table.js";
import { needsOf } from "../../../gpipe_edu/view/js/navigation.js";
import { NAMES, opOf, specs, stuck } from "./specs.mjs";

const op = (spec, ...cell) => explain(spec, { type: "op", index: opOf(spec, ...cell) }, NAMES);

test("an op tells when it runs, what it waited for and what it unblocks", () => {
  assert.deepEqual(op(specs.gpipe, "B", 6, 1), {
    title: "B6: backward of micro-batch 6, stage 1",
    lines: [
      "On device 1, from 17 to 19, so it takes 2.",
      "Waited for: F6 here (done at 8), B6 on device 2 (done at 17) and its turn after B7 (done at 17); " +
        "last came B6 on device 2 and its turn after B7.",
      "Unblocks: B6 on device 0 (starts at 19).",
    ],
  });
});

test("an op that never runs tells what it would need, one that ran what still waits for it", () => {
  assert.deepEqual(op(stuck, "B", 0, 0).lines, [
    "On device 0, where it never runs.",
    "Needs: F0 here (done at 1) and B0 on device 1 (which never runs).",
    "Stands behind: F0 (done at 1).",
  ]);
  assert.equal(op(stuck, "F", 1, 0).lines[1], "Needs: no other op.");
  assert.match(op(stuck, "F", 0, 1).lines[2], /^Unblocks: B0 here \(which never runs\)\.$/);
  const markup = tableMarkup(stuck, NAMES);
  assert.match(markup, /<th scope="row">B0<\/th><td>0<\/td><td>0<\/td><td>0<\/td><td>backward<\/td><td>never<\/td><td>never<\/td>/);
  assert.doesNotMatch(markup, /bubbles|memory/);
});

test("the first op waited for nothing, the last unblocks nothing", () => {
  assert.match(op(specs.gpipe, "F", 0, 0).lines[1], /nothing, it is the first op/);
  assert.match(op(specs.gpipe, "B", 0, 0).lines[2], /nothing more/);
});

test("an op of a pair tells of the other, and what it makes leaves with the block", () => {
  const spec = specs.pairs;
  for (const index of spec.pairs) {
    const [forward, backward] = [index, index + 1].map((one) => explain(spec, { type: "op", index: one }, NAMES).lines[1]);
    const when = `from ${spec.start[index]} to ${spec.stop[index + 1]}; what both make leaves then.`;
    assert.equal(forward, `Runs as one block with B${spec.micro_batch[index + 1]}, ${when}`);
    assert.equal(backward, `Runs as one block with F${spec.micro_batch[index]}, ${when}`);
    const user = spec.needs[0].findIndex((need, op) => need === index && spec.kind[op] === "F");
    if (user >= 0) assert.match(explain(spec, { type: "op", index: user }, NAMES).lines.join(" "), new RegExp(`done at ${spec.stop[index + 1]}`));
  }
});

test("a transfer is told where there is one", () => {
  assert.match(op(specs["uneven, narrow"], "F", 1, 1).lines[1], /F1 on device 0 \(done at 2, and 0.25 to be sent\)/);
});

test("a message that waited for its link says so, in the op's sentence and in the bubble's", () => {
  const spec = specs.links; // F 1, link 1.5, latency 0.5: F0 goes on the link at 1, F1 at 2.5 and not at 2
  assert.match(op(spec, "F", 0, 1).lines[1], /F0 on device 0 \(done at 1, and 2 to be sent\)/);
  assert.match(op(spec, "F", 1, 1).lines[1], /F1 on device 0 \(done at 2, and waited for the link until 2.5, then 2 to be sent\)/);
  const { idle } = spec;
  const index = idle.device.findIndex((lane, n) => lane === 1 && spec.kind[idle.next[n]] + spec.micro_batch[idle.next[n]] === "F1");
  const why = explain(spec, { type: "idle", index }, NAMES).lines[1];
  assert.match(why, /that one takes until 2 and waited for the link until 2.5, then 2 to be sent\./);
});

test("a stage is named only where the device does not say it", () => {
  assert.equal(nameOf(specs.gpipe, opOf(specs.gpipe, "F", 2, 3)), "F2 on device 3");
  assert.equal(nameOf(specs.interleaved, opOf(specs.interleaved, "F", 2, 3), 1), "F2 of stage 3 here");
});

test("a bubble tells why: what comes next, what that needs, how long that takes", () => {
  const { idle } = specs.gpipe;
  const at = (device, start) => idle.device.findIndex((lane, n) => lane === device && idle.start[n] === start);
  const why = (device, start) => explain(specs.gpipe, { type: "idle", index: at(device, start) }, NAMES).lines;
  assert.deepEqual(why(1, 9), [
    "From 9 to 15, that is 6.",
    "Why: next it runs B7, which needs B7 on device 2; that one takes until 15.",
  ]);
  assert.match(why(2, 0)[1], /next it runs F0, which needs F0 on device 1; that one takes until 2\./);
  assert.match(why(3, 27)[1], /done all its work of this step; it waits for the update/);
});

test("time that no missing input explains is called by its name", () => {
  const spec = structuredClone(specs.gpipe);
  const index = spec.idle.device.findIndex((lane, n) => lane === 1 && spec.idle.start[n] === 9);
  spec.idle.stop[index] = 15.5;
  spec.shown = [1, "s"];
  const { lines } = explain(spec, { type: "idle", index }, NAMES);
  assert.match(lines[2], /The last 0.5 s are no waiting for data/);
});

test("every op and bubble of every spec can be explained", () => {
  for (const spec of Object.values(specs)) {
    for (let index = 0; index < spec.kind.length; index++) {
      const { title, lines } = explain(spec, { type: "op", index }, NAMES);
      const paired = (spec.pairs ?? []).some((first) => index - first === 0 || index - first === 1);
      assert.equal(lines.length, paired ? 4 : 3);
      assert.doesNotMatch(title + lines.join(""), /undefined|NaN|null/);
    }
    spec.idle.start.forEach((_, index) => {
      assert.doesNotMatch(explain(spec, { type: "idle", index }, NAMES).lines.join(""), /undefined|NaN|null/);
    });
  }
});

test("the table has a row for every op and bubble, with the times and needs of the spec", () => {
  for (const spec of Object.values(specs)) {
    const rows = tableRows(spec, NAMES);
    assert.equal(rows.length, spec.kind.length);
    rows.forEach(([label, device, stage, microBatch, kind, , , waited], index) => {
      assert.equal(label, spec.kind[index] + spec.micro_batch[index]);
      assert.deepEqual([stage, microBatch, kind], [spec.stage[index], spec.micro_batch[index], NAMES[spec.kind[index]]]);
      assert.ok(spec.stages[device].includes(stage));
      assert.equal(waited ? waited.split(", ").length : 0, needsOf(spec, index).length);
    });
    assert.equal(idleRows(spec).length, spec.idle.start.length);
  }
  const [row] = tableRows(specs.gpipe, NAMES, 1);
  assert.deepEqual(row, ["F0", 1, 1, 0, "forward", "1", "2", "F0 on device 0", "F0 on device 2, B0 here"]);
});

test("one device's table holds that device alone, and names are made harmless", () => {
  const markup = tableMarkup({ ...specs.gpipe, name: "<b>" }, NAMES, 2);
  assert.equal(markup.match(/<th scope="row">[FB]\d/g).length, 16);
  assert.ok(markup.includes("&lt;b&gt;: ops, device 2"));
  assert.ok(!markup.includes("<b>"));
});
