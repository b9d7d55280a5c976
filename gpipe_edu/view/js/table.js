// The chart as a table, for readers who cannot use a picture: the same ops, times, reasons and figures.

import { KEPT } from "./kernel_notices.js";
import { amount, escape, showTime } from "./lettering.js";
import { labelOf, neverRuns } from "./layout.js";
import { nameOf } from "./explain.js";
import { needsOf, unblockedBy } from "./navigation.js";

/** Above this many ops the table shows one device at a time, as browsers stall on tens of thousands of rows. */
export const MOST_ROWS = 600;

const COLUMNS = ["op", "device", "stage", "micro-batch", "kind", "start", "end", "waited for", "unblocks"];

/** One row per op, lane after lane, as texts; of one device only if `device` is given. */
export function tableRows(spec, names, device = null) {
  const rows = [];
  for (let lane = 0; lane < spec.K; lane++) {
    if (device !== null && lane !== device) continue;
    for (let index = spec.first[lane]; index < spec.first[lane + 1]; index++) {
      rows.push([
        labelOf(spec, index),
        lane,
        spec.stage[index],
        spec.micro_batch[index],
        names[spec.kind[index]],
        ...[spec.start[index], spec.stop[index]].map((time) => (neverRuns(spec, index) ? "never" : showTime(time, spec.shown))),
        needsOf(spec, index).map((op) => nameOf(spec, op, lane)).join(", "),
        unblockedBy(spec, index).map((op) => nameOf(spec, op, lane)).join(", "),
      ]);
    }
  }
  return rows;
}

/** The bubbles of a spec: device, start, end. */
export function idleRows(spec, device = null) {
  const { device: lanes, start, stop } = spec.idle;
  return lanes
    .map((lane, index) => [lane, showTime(start[index], spec.shown), showTime(stop[index], spec.shown)])
    .filter(([lane]) => device === null || lane === device);
}

/** The tables of one spec as markup. */
export function tableMarkup(spec, names, device = null) {
  const place = device === null ? "" : `, device ${device}`;
  const head = `<p>${escape([...spec.heading, ...spec.figures].join("; "))}</p>`;
  const ops = grid(`${spec.name}: ops${place}`, COLUMNS, tableRows(spec, names, device));
  if (spec.stops) return head + ops; // how long a device that is stuck waits, and holds what it holds, has no end
  const held = spec.memory.map(([, levels], lane) => [lane, spec.peaks[lane], amount(Math.max(0, ...levels))]);
  return (
    head +
    ops +
    grid(`${spec.name}: bubbles${place}`, ["device", "start", "end"], idleRows(spec, device)) +
    grid(`${spec.name}: memory`, ["device", "peak in flight", "holds at most"], held)
  );
}

function grid(caption, columns, rows) {
  const head = columns.map((column) => `<th scope="col">${escape(column)}</th>`).join("");
  const body = rows.map(([first, ...rest]) => `<tr><th scope="row">${escape(first)}</th>${cells(rest)}</tr>`).join("");
  return `<table><caption>${escape(caption)}</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
}

function cells(values) {
  return values.map((value) => `<td>${escape(value)}</td>`).join("");
}

/** The tables of all specs in `host`, made only while it can be seen; for a large step one device at a time. */
export function createTable(host, names) {
  let specs = [];
  host.addEventListener("change", ({ target }) => {
    const rows = host.querySelector(`[data-rows="${target.dataset.table}"]`);
    rows.innerHTML = tableMarkup(specs[target.dataset.table], names, Number(target.value));
  });
  return {
    show(next) {
      specs = next;
      if (!host.hidden) host.innerHTML = specs.map(tableOf).join("");
    },
  };

  function tableOf(spec, number) {
    const large = spec.kind.length > MOST_ROWS;
    const choice = spec.stages.map((_, device) => `<option value="${device}">device ${device}</option>`).join("");
    const chooser = `<label class="ge-field">rows of <select data-table="${number}" ${KEPT}>${choice}</select></label>`;
    return `${large ? chooser : ""}<div data-rows="${number}">${tableMarkup(spec, names, large ? 0 : null)}</div>`;
  }
}
