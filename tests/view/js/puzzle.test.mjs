import assert from "node:assert/strict";
import { test } from "node:test";
import * as moves from "../../../gpipe_edu/puzzles/page/js/puzzle_moves.js";
import * as drawn from "../../../gpipe_edu/puzzles/page/js/puzzle_draw.js";
import * as markup from "../../../gpipe_edu/puzzles/page/js/puzzle_panel.js";
import { frameOf, panelOf } from "../../../gpipe_edu/view/js/layout.js";
import { NAMES, specs } from "./specs.mjs";

const boxes = [0, 10, 20].map((x) => ({ x, width: 10 }));

test("what is dropped goes behind every box whose middle it has passed", () => {
  assert.deepEqual([-5, 4, 6, 14, 16, 99].map((x) => moves.gapAt(boxes, x)), [0, 0, 1, 1, 2, 3]);
});

test("a move lands where it was let go, for every place of every row", () => {
  const rows = [["a", "b", "c"], ["d", "e"]];
  for (const from of places(rows, false)) {
    for (const to of places(rows, true)) {
      const op = rows[from.device][from.at];
      const marked = rows.map((row, device) => {
        const kept = row.map((each, at) => (device === from.device && at === from.at ? "" : each));
        if (device === to.device) kept.splice(to.at, 0, op);
        return kept.filter(Boolean);
      });
      const done = rows.map((row) => [...row]);
      done[from.device].splice(from.at, 1);
      done[to.device].splice(moves.landing(from, to), 0, op);
      assert.deepEqual(done, marked);
      assert.equal(moves.stays(from, to), JSON.stringify(done) === JSON.stringify(rows));
    }
  }
});

function places(rows, behind) {
  return rows.flatMap((row, device) => Array.from({ length: row.length + (behind ? 1 : 0) }, (_, at) => ({ device, at })));
}

test("arrow keys walk along a device, and to what the next one does at that time", () => {
  const lane = (...starts) => starts.map((start) => ({ start, end: start + 1 }));
  const lanes = [lane(0, 1, 2), lane(1, 2), []];
  const from = (device, at, ...keys) => keys.reduce((place, key) => moves.walk(lanes, place, key), { device, at });
  assert.deepEqual(from(0, 0, "right", "right", "right", "right"), { device: 0, at: 3 });
  assert.deepEqual(from(0, 2, "left", "down"), { device: 1, at: 0 });
  assert.deepEqual(from(0, 2, "down"), { device: 1, at: 1 });
  assert.deepEqual(from(1, 1, "up"), { device: 0, at: 2 });
  assert.deepEqual(from(0, 3, "down"), { device: 1, at: 2 });
  assert.deepEqual(from(1, 0, "down", "down", "up", "first"), { device: 1, at: 0 });
  assert.deepEqual(from(0, 0, "up"), { device: 0, at: 0 });
  assert.deepEqual(from(0, 1, "last"), { device: 0, at: 3 });
});

test("the focus always has a button to go to, as long as there is one", () => {
  assert.deepEqual(moves.nearestButton([2, 0, 3], { device: 0, at: 5 }), { device: 0, at: 1 });
  assert.deepEqual(moves.nearestButton([2, 0, 3], { device: 1, at: 0 }), { device: 2, at: 0 });
  assert.deepEqual(moves.nearestButton([2, 0, 0], { device: 2, at: 0 }), { device: 0, at: 0 });
  assert.equal(moves.nearestButton([0, 0], { device: 1, at: 0 }), null);
  assert.deepEqual(moves.rove([2, 0, 3], { device: 0, at: 1 }, "down"), { device: 2, at: 1 });
  assert.deepEqual(moves.rove([2, 0, 3], { device: 0, at: 1 }, "up"), { device: 0, at: 1 });
  assert.deepEqual(moves.rove([2, 0, 3], { device: 2, at: 1 }, "last"), { device: 2, at: 2 });
  assert.deepEqual(moves.rove([2, 0, 3], { device: 2, at: 2 }, "right"), { device: 2, at: 2 });
});

test("ghosts that overlap in time never overlap on the page", () => {
  const ghost = (op, device, start, end) => ({ op, device, start, end });
  const all = [ghost("F1@0", 0, 1, 2), ghost("R0@0", 0, 1, 2), ghost("C0@0", 0, 1, 4), ghost("F2@0", 0, 2, 3), ghost("F0@1", 1, 1, 2)];
  const found = moves.ghostBoxes(all, { top: (device) => device * 100, height: 34, xOf: (time) => time * 10 });
  assert.equal(found.length, all.length);
  const cross = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  found.forEach((one, index) => found.slice(index + 1).forEach((two) => assert.ok(!cross(one, two), `${one.op} ${two.op}`)));
  assert.equal(found.find(({ op }) => op === "F0@1").height, 34);
  assert.ok(found.every(({ height }) => height >= 15));
});

test("words: names of ops, levels, sentences", () => {
  assert.equal(moves.opWords("W12@3", NAMES), "weight gradient of micro-batch 12, stage 3");
  assert.deepEqual([moves.opLabel("F0@2", false), moves.opLabel("F0@2", true)], ["F0", "F0@2"]);
  assert.equal(moves.levelWords({ title: "Pipelining", best: 10 }, 2), "2: Pipelining, solved with makespan 10");
  assert.equal(moves.levelWords({ title: "x", best: null }, 3), "3: x, not solved");
  assert.deepEqual(["", "so", "so.", "so?"].map(moves.sentence), ["", "so.", "so.", "so?"]);
  assert.deepEqual(moves.within([2, 0], { device: 4, at: 9 }), { device: 1, at: 0 });
});

const spec = { ...specs.gpipe, end: 40 };
const panel = panelOf(spec, frameOf([spec], 1000), true, 8);
const board = {
  goal: 40,
  par: 33,
  cap: [4, 3, 2, 1],
  ghosts: [{ op: "F0@0", device: 0, start: 33, end: 34, more: 2 }],
  stuck: [{ op: "B7@3", device: 3, at: spec.first[4] - spec.first[3], start: 33, end: 35 }],
  circle: [],
};

test("a deadlock is drawn as arrows from op to op, dashed where one only stands behind the other", () => {
  const circle = [["B7@3", "F0@1", false], ["F0@1", "B1@1", true], ["B1@1", "F0@0", false], ["F0@0", "B9@0", true]];
  const text = drawn.standing(panel, { ...board, circle }, new Set());
  assert.equal(text.match(/class="ge-wait"/g).length, 2);
  assert.equal(text.match(/class="ge-turn"/g).length, 2); // the last leads to an op that is not on the board yet
  assert.ok(!text.includes("NaN"));
  assert.ok(!drawn.standing(panel, board, new Set()).includes("ge-wait"));
});

test("the board shows goal, par, a cap per device, what is stuck and what is wrong", () => {
  const text = drawn.standing(panel, board, new Set(["B7@3", "F0@0"]));
  for (const words of ["goal 40", "par 33", "cap 4", "cap 1", "B7?"]) assert.ok(text.includes(words), words);
  assert.equal(text.match(/gp-wrong/g).length, 3); // B7@3 stands there twice
  assert.ok(!drawn.standing(panel, { ...board, goal: null, par: null, cap: null }, new Set()).includes("gp-aim"));
  assert.ok(drawn.standing(panel, { ...board, par: 40 }, new Set()).includes("goal and par 40"));
});

test("one box has the focus and its name; what is carried shows where it would land", () => {
  const look = { ghosts: true, hint: null, place: { device: 0, at: 1 }, focused: true, carried: null, target: null };
  const text = drawn.passing(panel, board, look, "m", 'F1 "here"');
  assert.equal(text.match(/id="focus-m"/g).length, 1);
  assert.ok(text.includes("&quot;here&quot;"));
  assert.ok(text.includes("gp-ghost"));
  assert.ok(!drawn.passing(panel, board, { ...look, ghosts: false }, "m", "").includes("gp-ghost"));
  const behind = drawn.passing(panel, board, { ...look, place: { device: 0, at: 16 } }, "m", "");
  assert.ok(behind.includes("gp-caret"));
  const carried = drawn.passing(panel, board, { ...look, carried: look.place, target: { device: 0, at: 3 } }, "m", "");
  assert.ok(carried.includes("gp-carried") && carried.includes("gp-target"));
});

test("texts of Python's are never markup", () => {
  const evil = "<img src=x>";
  const level = { key: "k", title: evil, lesson: evil, task: evil, best: null };
  const texts = [
    markup.levelMarkup(level, 1),
    markup.levelsMarkup([level], "k"),
    markup.saidMarkup(evil, "no"),
    markup.solvedMarkup(["numpy"], level),
    markup.runMarkup({ text: evil, equal: true, words: [evil], engine: "numpy" }),
  ];
  for (const text of texts) assert.ok(!text.includes("<img") && text.includes("&lt;"));
});
