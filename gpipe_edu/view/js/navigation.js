// Finding things in a spec: what is there at a time, what comes before and after, what an op unblocks.
// An item is {panel, type: "op" | "idle", index}; panel is the number of the spec among those shown.

const kept = new WeakMap();

/** What is worked out of a spec once and asked for often. */
function facts(spec) {
  if (!kept.has(spec)) kept.set(spec, {});
  return kept.get(spec);
}

/** The items of one lane in order of time. */
export function itemsOf(spec, device) {
  const lanes = (facts(spec).lanes ??= sortLanes(spec));
  return lanes[device];
}

function sortLanes(spec) {
  const lanes = spec.stages.map(() => []);
  for (let device = 0; device < spec.K; device++) {
    for (let index = spec.first[device]; index < spec.first[device + 1]; index++) {
      lanes[device].push({ type: "op", index, start: spec.start[index], stop: spec.stop[index] });
    }
  }
  const { device, start, stop } = spec.idle;
  device.forEach((lane, index) => lanes[lane].push({ type: "idle", index, start: start[index], stop: stop[index] }));
  for (const lane of lanes) lane.sort((one, two) => one.start - two.start || one.stop - two.stop);
  return lanes;
}

/** The number, in its lane, of the item that runs at `time`; at a border the one that starts there. */
export function placeAt(spec, device, time) {
  const items = itemsOf(spec, device);
  let low = 0;
  let high = items.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (items[middle].start <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The item of `device` at `time`, or null where nothing is drawn. */
export function itemAt(spec, device, time) {
  const found = itemsOf(spec, device)[placeAt(spec, device, time)];
  return found && found.start <= time && time <= found.stop ? found : null;
}

/** The device of an item. */
export function deviceOfItem(spec, { type, index }) {
  if (type === "idle") return spec.idle.device[index];
  let device = 0;
  while (spec.first[device + 1] <= index) device++;
  return device;
}

/** Where the roving focus goes from `item` by the act of a key; `item` itself where there is nothing further. */
export function neighbour(specs, item, act) {
  const spec = specs[item.panel];
  const device = deviceOfItem(spec, item);
  const items = itemsOf(spec, device);
  const place = items.findIndex(({ type, index }) => type === item.type && index === item.index);
  const step = { left: -1, right: 1, first: -place, last: items.length - 1 - place }[act];
  if (step !== undefined) return onPanel(item.panel, items[Math.min(items.length - 1, Math.max(0, place + step))]);
  const lanes = specs.flatMap(({ K }, panel) => Array.from({ length: K }, (_, lane) => [panel, lane]));
  const here = lanes.findIndex(([panel, lane]) => panel === item.panel && lane === device);
  const down = act === "up" ? -1 : 1;
  for (let next = here + down; lanes[next]; next += down) {
    const [panel, lane] = lanes[next];
    const middle = (items[place].start + items[place].stop) / 2;
    const there = itemsOf(specs[panel], lane);
    if (there.length) return onPanel(panel, there[placeAt(specs[panel], lane, middle)]);
  }
  return item;
}

/** The first item there is. */
export function firstItem(specs) {
  const device = specs[0].stages.findIndex((_, lane) => itemsOf(specs[0], lane).length);
  return onPanel(0, itemsOf(specs[0], device)[0]);
}

export function onPanel(panel, { type, index }) {
  return { panel, type, index };
}

export function same(one, two) {
  return Boolean(one && two) && one.panel === two.panel && one.type === two.type && one.index === two.index;
}

/** The same op in other specs, or null: charts are redrawn, and what was selected should stay so. */
export function again(item, before, after) {
  if (item?.type !== "op" || !after[item.panel]) return null;
  const old = before[item.panel];
  const spec = after[item.panel];
  const { index } = item;
  for (let other = 0; other < spec.kind.length; other++) {
    if (
      spec.kind[other] === old.kind[index] &&
      spec.micro_batch[other] === old.micro_batch[index] &&
      spec.stage[other] === old.stage[index]
    ) {
      return { panel: item.panel, type: "op", index: other };
    }
  }
  return null;
}

/** The message that carries what op `index` made to another device, {start, stop, there}; null if it keeps no link busy. */
export function messageOf(spec, index) {
  const known = facts(spec);
  if (!known.messages) {
    const { op, start, stop, there } = spec.messages;
    known.messages = new Map(op.map((sender, row) => [sender, { start: start[row], stop: stop[row], there: there[row] }]));
  }
  return known.messages.get(index) ?? null;
}

/** The ops that op `index` waited for. */
export function needsOf(spec, index) {
  return [spec.needs[0][index], spec.needs[1][index]].filter((need) => need >= 0);
}

/** The ops that waited for op `index`. */
export function unblockedBy(spec, index) {
  const known = facts(spec);
  if (!known.after) {
    known.after = new Map();
    for (const column of spec.needs) {
      column.forEach((need, op) => {
        if (need < 0) return;
        if (!known.after.has(need)) known.after.set(need, []);
        known.after.get(need).push(op);
      });
    }
  }
  return (known.after.get(index) ?? []).sort((one, two) => spec.start[one] - spec.start[two]);
}

/** Every time at which something starts or ends, in any of the specs, in order. */
export function eventsOf(specs) {
  const known = facts(specs);
  known.events ??= [...new Set(specs.flatMap(({ start, stop, end, plan }) => [0, ...start, ...stop, end, ...(plan ? [plan.end] : [])]))].sort(
    (one, two) => one - two,
  );
  return known.events;
}

/** The event before (-1) or after (1) `time`. */
export function nextEvent(events, time, direction) {
  const near = 1e-9 * events.at(-1);
  if (direction > 0) return events.find((event) => event > time + near) ?? events.at(-1);
  return events.findLast((event) => event < time - near) ?? events[0];
}

/** What `device` holds at `time`. */
export function heldAt(spec, device, time) {
  const [times, held] = spec.memory[device];
  let low = -1;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low < 0 ? 0 : held[low];
}
