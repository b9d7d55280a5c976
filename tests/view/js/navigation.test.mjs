import assert from "node:assert/strict";
import { test } from "node:test";
import * as find from "../../../gpipe_edu/view/js/navigation.js";
import { opOf, specs } from "./specs.mjs";

const gpipe = specs.gpipe;

test("at any time a lane shows the item that runs then", () => {
  for (const spec of Object.values(specs)) {
    for (let device = 0; device < spec.K; device++) {
      const items = find.itemsOf(spec, device);
      for (const { start, stop, type, index } of items) {
        if (stop > start) {
          const found = find.itemAt(spec, device, (start + stop) / 2);
          assert.deepEqual([found.type, found.index], [type, index]);
        }
      }
      assert.ok(Math.abs(items[0].start) < 1e-9);
      items.slice(1).forEach((item, place) => assert.ok(Math.abs(item.start - items[place].stop) < 1e-8));
    }
  }
});

test("the arrow keys walk a lane from end to end and change lanes at the same time", () => {
  let item = find.firstItem([gpipe]);
  const seen = [item];
  for (let next; !find.same((next = find.neighbour([gpipe], item, "right")), item); item = next) seen.push(next);
  assert.equal(seen.length, find.itemsOf(gpipe, 0).length);
  assert.ok(find.same(item, find.neighbour([gpipe], seen[0], "last")));
  assert.ok(find.same(seen[0], find.neighbour([gpipe], item, "first")));
  assert.ok(find.same(seen.at(-2), find.neighbour([gpipe], item, "left")));
  const f3 = { panel: 0, type: "op", index: opOf(gpipe, "F", 3, 0) };
  const below = find.neighbour([gpipe], f3, "down");
  assert.equal(below.index, opOf(gpipe, "F", 2, 1)); // both run from 3 to 4
  assert.ok(find.same(f3, find.neighbour([gpipe], below, "up")));
  assert.ok(find.same(f3, find.neighbour([gpipe], f3, "up")));
});

test("below the last lane of one spec stands the first lane of the next", () => {
  const two = [gpipe, specs.late];
  const last = { panel: 0, type: "op", index: opOf(gpipe, "F", 0, 3) };
  const below = find.neighbour(two, last, "down");
  assert.equal(below.panel, 1);
  assert.equal(find.deviceOfItem(specs.late, below), 0);
  assert.equal(find.neighbour(two, below, "up").panel, 0);
});

test("events are all starts and ends, and stepping visits each once", () => {
  const events = find.eventsOf([gpipe]);
  assert.deepEqual(events, [...new Set([0, ...gpipe.start, ...gpipe.stop])].sort((a, b) => a - b));
  let time = 0;
  for (const event of events.slice(1)) assert.equal((time = find.nextEvent(events, time, 1)), event);
  assert.equal(find.nextEvent(events, gpipe.end, 1), gpipe.end);
  assert.equal(find.nextEvent(events, 0, -1), 0);
  assert.equal(find.nextEvent(events, 1.5, -1), 1);
});

test("what is held at a time is what began and has not ended", () => {
  for (let device = 0; device < 4; device++) {
    for (const time of [0, 0.5, 3, 7.9, 8, 17, 20.5, 33]) {
      let held = 0;
      for (let index = gpipe.first[device]; index < gpipe.first[device + 1]; index++) {
        if (gpipe.kind[index] === "F" && gpipe.start[index] <= time) held += 1;
        if (gpipe.kind[index] === "B" && gpipe.stop[index] <= time) held -= 1;
      }
      assert.equal(find.heldAt(gpipe, device, time), held);
    }
  }
});

test("unblocks is waited for, seen from the other side", () => {
  for (const spec of Object.values(specs)) {
    for (let index = 0; index < spec.kind.length; index++) {
      for (const after of find.unblockedBy(spec, index)) assert.ok(find.needsOf(spec, after).includes(index));
      for (const need of find.needsOf(spec, index)) assert.ok(find.unblockedBy(spec, need).includes(index));
    }
  }
});

test("what was selected is found again in another schedule, or let go", () => {
  const item = { panel: 0, type: "op", index: opOf(gpipe, "F", 2, 1) };
  assert.equal(find.again(item, [gpipe], [specs["zero bubble"]]).index, opOf(specs["zero bubble"], "F", 2, 1));
  const b = { panel: 0, type: "op", index: opOf(gpipe, "B", 2, 1) };
  assert.equal(find.again(b, [gpipe], [specs["zero bubble"]]), null);
  assert.equal(find.again({ panel: 0, type: "idle", index: 0 }, [gpipe], [gpipe]), null);
});
