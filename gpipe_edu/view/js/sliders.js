// Sliders over a picture: they say what is wanted, and Python draws it. One wish at a time is on its way, and of those
// made meanwhile only the last one follows, so that a slow answer piles nothing up.

import { KEPT, LOST, SILENT } from "./kernel_notices.js";
import { escape } from "./lettering.js";
import { passOn } from "./pass_on.js";

const LONG = 15_000; // milliseconds: a search may take long, and that is not silence

/** What a notebook calls (anywidget). sliders: [{name, label, stops}]; answer: {at: index of the stop by name, html, words}. */
export function render({ model, el }) {
  const host = el.ownerDocument.createElement("div");
  const sliders = model.get("sliders");
  let wanted = model.get("answer").at;
  let asked = null;
  let timer;

  host.className = "ge-gantt";
  host.innerHTML =
    `<div class="ge-row" role="group" aria-label="What is planned">${sliders.map(slider).join("")}</div>` +
    `<p class="ge-state" role="status"></p><div class="ge-picture"></div>`;
  const [row, state, picture] = host.children;

  function slider({ name, label, stops }) {
    const input = `<input type="range" min="0" max="${stops.length - 1}" data-name="${escape(name)}" ${KEPT}>`;
    return `<label class="ge-field ge-slider">${escape(label)} ${input}<output></output></label>`;
  }

  function place() {
    for (const input of row.querySelectorAll("input")) {
      const { stops } = sliders.find(({ name }) => name === input.dataset.name);
      input.value = wanted[input.dataset.name];
      input.nextElementSibling.textContent = stops[wanted[input.dataset.name]];
      input.setAttribute("aria-valuetext", stops[wanted[input.dataset.name]]);
    }
  }

  function ask() {
    if (asked || same(wanted, model.get("answer").at)) return;
    try {
      model.send({ wish: wanted });
    } catch {
      state.textContent = LOST; // there is no kernel
      return;
    }
    asked = wanted;
    picture.setAttribute("aria-busy", "true");
    state.textContent = "Planning \u2026";
    timer = setTimeout(() => (state.textContent = SILENT), LONG);
  }

  function show() {
    const { at, html, words } = model.get("answer");
    const open = new Set([...picture.querySelectorAll("details[open]")].map((each) => each.className));
    picture.innerHTML = html;
    for (const each of picture.querySelectorAll("details")) each.open = open.has(each.className);
    if (asked && !same(asked, at)) return; // the answer to another view of this widget
    if (!asked) wanted = at;
    asked = null;
    clearTimeout(timer);
    picture.removeAttribute("aria-busy");
    state.textContent = words;
    place();
    ask();
  }

  row.addEventListener("input", ({ target }) => {
    wanted = { ...wanted, [target.dataset.name]: Number(target.value) };
    place();
    ask();
  });
  model.on("change:answer", show);
  show();
  const stopPassing = passOn(host, { goesOn: true });
  el.append(host);
  return () => {
    clearTimeout(timer);
    stopPassing();
    model.off("change:answer", show);
  };
}

const same = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);
