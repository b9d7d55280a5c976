import assert from "node:assert/strict";
import { test } from "node:test";
import { around, meaning } from "../../../gpipe_edu/view/js/keys.js";
import { advance, legible } from "../../../gpipe_edu/view/js/transport.js";
import { besides, changed, stagesOf } from "../../../gpipe_edu/view/js/controls.js";
import { createAnswers, wishKey } from "../../../gpipe_edu/view/js/answers.js";
import { answerOf, unpack } from "../../../gpipe_edu/view/js/host.js";
import { uniqueMark } from "../../../gpipe_edu/view/js/app.js";

const SETTINGS = { schedule: "gpipe", recompute: "none", K: 4, M: 8, V: 2, factors: [] };

test("keys mean what the manual says, and with a modifier they are the browser's", () => {
  const key = (name, more = {}) => meaning(more.place ?? "chart", { key: name, ...more });
  for (const move of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]) assert.ok(around(key(move)));
  assert.deepEqual(["Enter", "Escape", "+", "-", "0"].map((name) => key(name)), ["toggle", "release", "nearer", "further", "whole"]);
  for (const other of ["Tab", "j", "a", "x", "constructor"]) assert.equal(key(other), "");
  assert.equal(key("0", { ctrlKey: true }), "");
  assert.equal(key("ArrowLeft", { altKey: true }), "");
  assert.equal(key("z", { place: "puzzle" }), "");
  assert.equal(key("z", { place: "puzzle", metaKey: true }), "undo");
  assert.equal(key("Z", { place: "puzzle", ctrlKey: true, shiftKey: true }), "redo");
});

test("play takes ten seconds a step at speed 1 and stops at the end", () => {
  assert.equal(advance(0, 5000, 33, 1), 16.5);
  assert.equal(advance(0, 5000, 33, 0.5), 8.25);
  assert.equal(advance(30, 5000, 33, 4), 33);
});

test("a moving cursor is told no finer than a thousandth of the step, an event exactly enough", () => {
  assert.equal(legible(7.04682, 33), 7.05);
  assert.equal(legible(8.5, 33), 8.5);
  assert.equal(legible(0.0070468, 0.0527), 0.00705);
  assert.equal(legible(123.456, 957), 123.5);
});

test("a control changes one setting and leaves the old settings alone", () => {
  assert.deepEqual(changed(SETTINGS, "K", 5), { ...SETTINGS, K: 5 });
  assert.deepEqual(changed(SETTINGS, "factors", 2, "2").factors, [1, 1, 2]);
  assert.deepEqual(SETTINGS.factors, []);
  const forms = { gpipe: { stages: 1 }, interleaved: { takes_V: true, stages: 2 }, zero_bubble_v: { stages: 2 } };
  const OFFER = { schedules: forms };
  assert.equal(stagesOf(SETTINGS, OFFER), 4);
  assert.equal(stagesOf({ ...SETTINGS, schedule: "interleaved" }, OFFER), 8);
  assert.equal(stagesOf({ ...SETTINGS, schedule: "zero_bubble_v" }, OFFER), 8);
});

test("what is one key press away stays within the control's range", () => {
  assert.deepEqual(besides({ type: "range", value: "4", min: "1", max: "16", step: "" }), [3, 5]);
  assert.deepEqual(besides({ type: "number", value: "0", min: "0", max: "1000", step: "0.5" }), [0.5]);
  const options = [{ value: "none" }, { value: "late", disabled: true }, { value: "early" }];
  assert.deepEqual(besides({ type: "select-one", options, selectedIndex: 2 }), []);
  assert.deepEqual(besides({ type: "select-one", options, selectedIndex: 0 }), []);
});

test("answers that came ahead are found by the wish, whatever its number; one bundle is under way at a time", () => {
  const asked = [];
  const answers = createAnswers((wishes, round) => asked.push([wishes, round]));
  const [one, two] = [{ ...SETTINGS, kept: null }, { ...SETTINGS, K: 5, kept: null }];
  answers.ahead([one, two], 64);
  answers.ahead([{ ...SETTINGS, K: 9, kept: null }], 64);
  assert.deepEqual(asked, [[[one, two], 1]]);
  answers.got(["stale"], 0);
  assert.equal(answers.get(one), null);
  answers.got(["first", "second"], 1);
  assert.equal(answers.get({ ...one, serial: 7 }), "first");
  assert.equal(answers.get({ ...SETTINGS, K: 5 }), "second");
  assert.equal(answers.get({ ...one, kept: SETTINGS }), null);
  answers.ahead([one, two], 64);
  assert.equal(asked.length, 1, "what is known is not asked again");
  answers.ahead([{ ...SETTINGS, K: 10 }], 50000);
  assert.equal(asked.length, 1, "a large step is not asked ahead");
  answers.forget();
  assert.equal(answers.get(one), null);
});

test("without a kernel nothing is asked ahead", () => {
  createAnswers(undefined).ahead([SETTINGS], 64);
});

test("a wish is told from another by everything but its number", () => {
  assert.equal(wishKey({ ...SETTINGS, serial: 1 }), wishKey({ ...SETTINGS, serial: 2, kept: null }));
  assert.notEqual(wishKey(SETTINGS), wishKey({ ...SETTINGS, factors: [2] }));
});

test("a page finds its charts by schedule, recompute, K and M, packed as deflate", async () => {
  const charts = ["gpipe|none|4|4", "gpipe|none|4|8"];
  const columns = { K: [4, 4], M: [4, 8], pairs: [null, [3]], needs: [[], [[0, 1, -1], [0, 0, 2]]] };
  const frames = { charts, columns, errors: { "zero_bubble|late|4|8": "no C" } };
  const spec = { K: 4, M: 8, pairs: [3], needs: [[-1, 0, 3], [-1, -1, 0]] };
  assert.deepEqual(answerOf(frames, SETTINGS), { error: null, kept: null, specs: [spec], words: [] });
  assert.deepEqual(answerOf(frames, { ...SETTINGS, schedule: "zero_bubble", recompute: "late" }), { error: "no C" });
  assert.equal(await unpack("eJxLTEpWOLS1GAALjAMx"), "abc µs");
});

test("every widget has a mark of its own", () => {
  assert.equal(new Set(Array.from({ length: 1000 }, uniqueMark)).size, 1000);
});
