// A trace that the page reads against what Python made of the same file: golden_traces.json holds both.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { openTrace, readTrace } from "../../../gpipe_edu/view/js/trace.js";
import { percent, traceSpec } from "../../../gpipe_edu/view/js/trace_spec.js";
import { NAMES } from "./specs.mjs";

const golden = JSON.parse(readFileSync(new URL("../golden_traces.json", import.meta.url), "utf8"));
const bytes = (text) => new TextEncoder().encode(text);

function near(found, wanted, what) {
  if (Array.isArray(wanted)) {
    assert.equal(found.length, wanted.length, `${what}.length`);
    wanted.forEach((value, index) => near(found[index], value, `${what}[${index}]`));
  } else if (wanted !== null && typeof wanted === "object") {
    assert.deepEqual(Object.keys(found).sort(), Object.keys(wanted).sort(), what);
    for (const key of Object.keys(wanted)) near(found[key], wanted[key], `${what}.${key}`);
  } else if (typeof wanted === "number") {
    assert.ok(Math.abs(found - wanted) <= 1e-8 * Math.max(1, Math.abs(wanted)), `${what}: ${found}, not ${wanted}`);
  } else assert.equal(found, wanted, what);
}

for (const [name, { text, spec }] of Object.entries(golden.cases)) {
  test(`the trace of ${name} is drawn as Python draws it`, () => {
    near(traceSpec(readTrace(bytes(text), "a.json", NAMES), spec.shown), spec, name);
  });
}

test("what is no trace of ours is refused in Python's words", () => {
  assert.ok(golden.refused.length > 30);
  for (const [data, words] of golden.refused) {
    assert.throws(() => readTrace(Buffer.from(data, "base64"), "a.json", NAMES), { name: "Error", message: words });
  }
});

test("a file that is too large is refused before it is read", async () => {
  const file = { name: "a.json", size: 50_000_000, arrayBuffer: () => assert.fail("it was read") };
  await assert.rejects(openTrace(file, NAMES), { message: /^a\.json has 50 MB, and a trace at most 32; / });
});

test("a file that has gone is a sentence too", async () => {
  const file = { name: "gone.json", size: 5, arrayBuffer: () => Promise.reject(new DOMException("NotFoundError")) };
  await assert.rejects(openTrace(file, NAMES), { message: /^gone\.json cannot be read; / });
});

test("percents are rounded as Python rounds them", () => {
  for (const [share, words] of golden.percents) assert.equal(percent(share), words, String(share));
});
