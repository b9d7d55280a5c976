// What an op waited for, what it unblocks, and why a device idles, in sentences. The facts are the spec's.

import { beginsPair, deviceOf, labelOf, leavesAt, neverRuns } from "./layout.js";
import { escape, showTime } from "./lettering.js";
import { messageOf, needsOf, unblockedBy } from "./navigation.js";

/** An op's name with its device, or "here" if that is `device`; with its stage where that is not obvious. */
export function nameOf(spec, index, device = -1) {
  const home = deviceOf(spec, index);
  const stages = spec.stages[home].length > 1 || spec.stages[home][0] !== home;
  const stage = stages ? ` of stage ${spec.stage[index]}` : "";
  return labelOf(spec, index) + stage + (home === device ? " here" : ` on device ${home}`);
}

/** {title, lines} for an item: one short name and a few sentences. names: what the letters of ops stand for. */
export function explain(spec, item, names) {
  return item.type === "op" ? explainOp(spec, item.index, names) : explainIdle(spec, item.index);
}

function listed(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

function explainOp(spec, index, names) {
  const show = (time) => showTime(time, spec.shown);
  const device = deviceOf(spec, index);
  const [start, stop] = [spec.start[index], spec.stop[index]];
  const kind = names[spec.kind[index]];
  const title = `${labelOf(spec, index)}: ${kind} of micro-batch ${spec.micro_batch[index]}, stage ${spec.stage[index]}`;
  const ran = `On device ${device}, from ${show(start)} to ${show(stop)}, so it takes ${show(stop - start)}.`;
  if (neverRuns(spec, index)) return { title, lines: explainNever(spec, index, device, show) };
  const lines = [spec.plan ? `${ran} ${againstPlan(spec, index, show)}` : ran];
  const pair = [index - 1, index].find((one) => beginsPair(spec, one));
  if (pair !== undefined) {
    const [from, to] = [spec.start[pair], spec.stop[pair + 1]].map(show);
    lines.push(`Runs as one block with ${labelOf(spec, pair === index ? index + 1 : pair)}, from ${from} to ${to}; what both make leaves then.`);
  }
  lines.push(`Waited for: ${waitedFor(spec, index, device, show)}.`);
  const most = unblockedBy(spec, index).map((op) => `${nameOf(spec, op, device)} (${neverRuns(spec, op) ? "which never runs" : `starts at ${show(spec.start[op])}`})`);
  lines.push(`Unblocks: ${most.length ? listed(most) : "nothing more; the update waits for it as for every op"}.`);
  return { title, lines };
}

/** For a schedule that cannot run: what an op would need, and what it stands behind. */
function explainNever(spec, index, device, show) {
  const how = (op) => (neverRuns(spec, op) ? "which never runs" : `done at ${show(leavesAt(spec, op))}`);
  const needs = needsOf(spec, index).map((need) => `${nameOf(spec, need, device)} (${how(need)})`);
  const before = index > spec.first[device] ? index - 1 : -1;
  return [
    `On device ${device}, where it never runs.`,
    `Needs: ${needs.length ? listed(needs) : "no other op"}.`,
    before < 0 ? "It is the first op of its device." : `Stands behind: ${labelOf(spec, before)} (${how(before)}).`,
  ];
}

/** How an op of a run differs from its plan. */
function againstPlan(spec, index, show) {
  const planned = spec.planned[index];
  const [start, stop] = [spec.plan.start[planned], spec.plan.stop[planned]];
  const late = spec.start[index] - start;
  const longer = spec.stop[index] - spec.start[index] - (stop - start);
  const least = 0.005 * (stop - start); // a smaller part of an op does not matter
  const off = (time, more, less) => (Math.abs(time) <= least ? "" : `${show(Math.abs(time))} ${time > 0 ? more : less}`);
  const began = off(late, "later", "earlier");
  const took = off(longer, "longer", "less long");
  const how = [began && `it started ${began}`, took && `it took ${took}`].filter(Boolean);
  return `Planned from ${show(start)} to ${show(stop)}: ${how.length ? listed(how) : "it ran as planned"}.`;
}

function waitedFor(spec, index, device, show) {
  const causes = needsOf(spec, index).map((need) => {
    const sent = sending(spec, need, device, show, ", ");
    return { at: readyAt(spec, need, device), words: `${nameOf(spec, need, device)} (done at ${show(leavesAt(spec, need))}${sent})` };
  });
  const turn = index > spec.first[device] ? index - 1 : -1;
  if (turn >= 0 && !needsOf(spec, index).includes(turn)) {
    const words = `its turn after ${labelOf(spec, turn)} (done at ${show(spec.stop[turn])})`;
    causes.push({ at: spec.stop[turn], words });
  }
  if (!causes.length) return "nothing, it is the first op of the step here";
  const last = Math.max(...causes.map(({ at }) => at));
  const latest = causes.filter(({ at }) => last - at <= 1e-9 * spec.end);
  const late = latest.length < causes.length ? `; last came ${listed(latest.map(({ words }) => words.split(" (")[0]))}` : "";
  return listed(causes.map(({ words }) => words)) + late;
}

/** When what `need` made is on `device`. */
function readyAt(spec, need, device) {
  if (deviceOf(spec, need) === device) return leavesAt(spec, need);
  return messageOf(spec, need)?.there ?? leavesAt(spec, need) + spec.send;
}

/** How what `need` made came to `device`, in words after `begin`; "" where it cost no time. */
function sending(spec, need, device, show, begin = " ") {
  if (deviceOf(spec, need) === device) return "";
  const message = messageOf(spec, need);
  if (!message) return spec.send ? `${begin}and ${show(spec.send)} to be sent` : "";
  const waited = message.start > leavesAt(spec, need) + 1e-9 * spec.end ? `waited for the link until ${show(message.start)}, then ` : "";
  return `${begin}and ${waited}${show(message.there - message.start)} to be sent`;
}

function explainIdle(spec, index) {
  const show = (time) => showTime(time, spec.shown);
  const { device: devices, start: starts, stop: stops, next: nexts, cause: causes } = spec.idle;
  const [device, start, stop, next, cause] = [devices, starts, stops, nexts, causes].map((column) => column[index]);
  const title = `Bubble: device ${device} idles`;
  const lines = [`From ${show(start)} to ${show(stop)}, that is ${show(stop - start)}.`];
  const near = 1e-6 * (spec.end || 1);
  if (next < 0) {
    const all = start <= near ? "It has no work in this step" : "It has done all its work of this step";
    lines.push(`Why: ${all}; it waits for the update, for which the other devices are not ready.`);
    return { title, lines };
  }
  const ready = cause < 0 ? 0 : readyAt(spec, cause, device);
  if (ready > start + near) {
    const sent = sending(spec, cause, device, show);
    lines.push(
      `Why: next it runs ${labelOf(spec, next)}, which needs ${nameOf(spec, cause, device)}; that one takes until ` +
        `${show(leavesAt(spec, cause))}${sent}.`,
    );
  } else {
    lines.push(`Why: ${labelOf(spec, next)} comes next, and all it needs is there already.`);
  }
  if (stop > Math.max(ready, start) + near) {
    const rest = stop - Math.max(ready, start);
    lines.push(`The last ${show(rest)} are no waiting for data: handing over, waking up, other work of the machine.`);
  }
  return { title, lines };
}

/** An item for the page: a line for what it is and when, then one for each reason. */
export function explainMarkup(spec, item, names) {
  const { title, lines } = explain(spec, item, names);
  const [when, ...reasons] = lines.map(escape);
  return [`<b>${escape(title)}.</b> ${when}`, ...reasons].map((line) => `<p>${line}</p>`).join("");
}

/** One line that a screen reader says: an item without the reasons. */
export function spoken(spec, item, names) {
  const { title, lines } = explain(spec, item, names);
  return `${title}. ${lines.join(" ")}`;
}

/** What every device does at `time`, for the line beside the cursor; null ops are idle. */
export function doingAt(running, spec, time) {
  const busy = running.filter((index) => index !== null).length;
  return `At ${showTime(time, spec.shown)}: ${busy} of ${spec.K} device${spec.K === 1 ? "" : "s"} busy`;
}
