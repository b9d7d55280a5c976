// Traces that the reader opened: chosen or dropped, read in the page, drawn under what is there. They stay in the page;
// whoever made the chart neither sees nor saves them, so this works alike with a kernel and without one.

import { KEPT } from "./kept.js";
import { escape } from "./lettering.js";
import { openTrace } from "./trace.js";
import { clockOf, lengthOf, traceSpec } from "./trace_spec.js";

const MOST_OPEN = 3; // more charts under each other are further apart than an eye compares
const UNIT_WORDS = { s: "seconds", "": "cost units" };

/** bar: where the names of open traces stand; zone: where files can be dropped. on: {change(words), refuse(words)}. */
export function createOpened(bar, zone, { names, on }) {
  let opened = []; // {trace, file, spec}, all in one unit

  async function open(files) {
    const refusals = [];
    const read = [];
    for (const file of files) {
      try {
        read.push({ trace: await openTrace(file, names), file: file.name });
      } catch (error) {
        refusals.push(error.message);
      }
    }
    for (const one of read) {
      opened = opened.filter(({ trace }) => trace.unit === one.trace.unit);
      if (opened.length < MOST_OPEN) opened.push(one);
      else refusals.push(`${one.file} is not drawn: ${MOST_OPEN} traces are open, so close one first`);
    }
    if (read.length) on.change(`${read.map(({ trace }) => trace.name || "pipeline").join(", ")} opened`);
    on.refuse(refusals.join(". "));
  }

  function close(number) {
    const [gone] = opened.splice(number, 1);
    on.change(`${gone.trace.name || "pipeline"} closed`);
  }

  bar.addEventListener("click", (event) => {
    const button = event.target.closest("[data-close]");
    if (button) close(Number(button.dataset.close));
  });

  const files = (event) => event.dataTransfer?.types.includes("Files");
  const mark = (event, over) => {
    if (!files(event)) return;
    event.preventDefault(); // or the browser leaves the page for the file
    event.stopPropagation();
    zone.classList.toggle("ge-drop", over);
  };
  zone.addEventListener("dragenter", (event) => mark(event, true));
  zone.addEventListener("dragover", (event) => mark(event, true));
  zone.addEventListener("dragleave", (event) => !zone.contains(event.relatedTarget) && mark(event, false));
  zone.addEventListener("drop", (event) => {
    mark(event, false);
    if (files(event)) open([...event.dataTransfer.files]);
  });

  /** The specs to draw: `base`, and under it what is open; on one axis there is one unit, or base gives way. */
  function beside(base) {
    if (!opened.length) {
      bar.hidden = true;
      bar.innerHTML = "";
      return base;
    }
    const { unit } = opened[0].trace;
    const shared = base.length && base[0].unit === (unit || "step");
    const shown = shared ? base[0].shown : clockOf(unit, Math.max(...opened.map(({ trace }) => lengthOf(trace))));
    for (const one of opened) {
      if (String(one.spec?.shown) !== String(shown)) one.spec = traceSpec(one.trace, shown);
    }
    bar.hidden = false;
    bar.innerHTML = markup(opened, shared ? "" : `It is in ${UNIT_WORDS[unit]} and the chart is not, so it stands alone until it is closed.`);
    return [...(shared ? base : []), ...opened.map(({ spec }) => spec)];
  }

  return { open, beside };
}

function markup(opened, note) {
  const items = opened.map(({ trace, file }, number) => {
    const name = escape(trace.name || "pipeline");
    return (
      `<li><b>${name}</b>, ${trace.source}, from ${escape(file)} ` +
      `<button type="button" class="ge-word" data-close="${number}" aria-label="Close ${name}" ${KEPT}>Close</button></li>`
    );
  });
  const words = `${note} In Python: ge.Timeline.load_trace(${JSON.stringify(opened.at(-1).file)})`.trim();
  return `<span class="ge-name">opened</span><ul>${items.join("")}</ul><small>${escape(words)}</small>`;
}
