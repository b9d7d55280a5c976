// Traces that the reader opened: chosen or dropped, read by the kernel, drawn under what is there. Profiles of all ranks of
// a pipeline, opened together, are one run. Their specs stay in the page; the chart's author neither sees nor saves them.
// Without a kernel no trace can be read.

import { KEPT, LOST, PATIENCE, SILENT } from "./kernel_notices.js";
import { escape } from "./lettering.js";

const MOST_OPEN = 3; // more charts under each other are too far apart for the eye to compare
const MOST_MEGABYTES = 9; // Jupyter closes the connection at a message of 10 MiB
const UNIT_WORDS = { s: "seconds", step: "cost units" };

/**
 * bar: where the names of open traces go; zone: where files can be dropped. ask(message, content): to the kernel,
 * null where there is none. base(): the specs of the chart. on: {change(words), refuse(words)}.
 */
export function createOpened(bar, zone, { mark, ask, base, on }) {
  let opened = []; // {spec, file}, all in one unit
  let asked = 0;
  const waiting = new Map(); // by number: what to do with the kernel's answer

  async function open(files) {
    if (!ask) return on.refuse(`This page has no kernel, and opening a trace needs one: in a notebook, ${inPython(files[0]?.name)}`);
    const refusals = [];
    const names = [];
    const draw = async (together) => {
      try {
        const spec = await read(together);
        if (!spec) return false;
        opened = opened.filter((each) => each.spec.unit === spec.unit);
        const [{ name }] = together;
        if (opened.length === MOST_OPEN) throw new Error(`${name} is not drawn: ${MOST_OPEN} traces are open, so close one first`);
        opened.push({ spec, file: name });
        names.push(spec.name);
      } catch (error) {
        refusals.push(error.message);
      }
      return true;
    };
    if (files.length === 1 || !(await draw(files))) for (const file of files) await draw([file]);
    if (names.length) on.change(`${names.join(", ")} opened`);
    on.refuse(refusals.join(". "));
  }

  /**
   * The spec of a file, or of the files of one run; null for several that are to be drawn one by one. Throws an Error
   * with a sentence, the kernel's own where it has read the files.
   */
  async function read(files) {
    const size = Math.ceil(files.reduce((sum, file) => sum + file.size, 0) / 1e6);
    if (size > MOST_MEGABYTES) {
      const [{ name }] = files;
      const least = `${size} MB, and a page can send the kernel ${MOST_MEGABYTES}`;
      if (files.length === 1) throw new Error(`${name} has ${least}; in Python: ${inPython(name)}`);
      throw new Error(`${files.length} files have ${least}; in a shell: gpipe-edu open ${files.map((file) => file.name).join(" ")}`);
    }
    const contents = [];
    for (const file of files) {
      const content = await file.arrayBuffer().catch(() => {
        throw new Error(`${file.name} cannot be read; it may be a folder, or it has been moved or changed since`);
      });
      contents.push(content);
    }
    const number = `${mark}-${++asked}`;
    const beside = [...base(), ...opened.map(({ spec }) => spec)].map(({ unit, shown }) => ({ unit, shown }));
    const patience = setTimeout(() => on.refuse(SILENT), PATIENCE);
    try {
      const answer = await new Promise((resolve) => {
        waiting.set(number, resolve);
        try {
          ask({ open: files.map((file) => file.name), beside, number }, contents);
        } catch {
          resolve({ refused: LOST });
        }
      });
      if (answer.refused) throw new Error(answer.refused);
      return answer.spec ? JSON.parse(answer.spec) : null;
    } finally {
      clearTimeout(patience);
      waiting.delete(number);
    }
  }

  function close(number) {
    const [{ spec }] = opened.splice(number, 1);
    on.change(`${spec.name} closed`);
  }

  bar.addEventListener("click", (event) => {
    const button = event.target.closest("[data-close]");
    if (button) close(Number(button.dataset.close));
  });

  const files = (event) => event.dataTransfer?.types.includes("Files");
  const drag = (event, over) => {
    if (!files(event)) return;
    event.preventDefault(); // or the browser leaves the page for the file
    event.stopPropagation();
    zone.classList.toggle("ge-drop", over);
  };
  zone.addEventListener("dragenter", (event) => drag(event, true));
  zone.addEventListener("dragover", (event) => drag(event, true));
  zone.addEventListener("dragleave", (event) => !zone.contains(event.relatedTarget) && drag(event, false));
  zone.addEventListener("drop", (event) => {
    drag(event, false);
    if (files(event)) open([...event.dataTransfer.files]);
  });

  /** The specs to draw: the chart's, and under them what is open; one axis has one unit, or the chart gives way. */
  function beside(specs) {
    bar.hidden = !opened.length;
    bar.innerHTML = "";
    if (!opened.length) return specs;
    const { unit } = opened[0].spec;
    const shared = specs[0].unit === unit;
    bar.innerHTML = markup(opened, shared ? "" : `It is in ${UNIT_WORDS[unit]} and the chart is not, so it stands alone until it is closed.`);
    return [...(shared ? specs : []), ...opened.map(({ spec }) => spec)];
  }

  return { open, beside, heard: (answer) => waiting.get(answer.number)?.(answer) };
}

function inPython(name = "trace.json") {
  return `ge.gantt(ge.Timeline.load_trace(${JSON.stringify(name)}))`;
}

function markup(opened, note) {
  const items = opened.map(({ spec, file }, number) => {
    const name = escape(spec.name);
    return (
      `<li><b>${name}</b>, ${spec.source}, from ${escape(file)} ` +
      `<button type="button" class="ge-word" data-close="${number}" aria-label="Close ${name}" ${KEPT}>Close</button></li>`
    );
  });
  const words = `${note} In Python: ge.Timeline.load_trace(${JSON.stringify(opened.at(-1).file)})`.trim();
  return `<span class="ge-name">opened</span><ul>${items.join("")}</ul><small>${escape(words)}</small>`;
}
