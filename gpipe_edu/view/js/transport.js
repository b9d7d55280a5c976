// Play, pause, step, scrub, speed, zoom and what is shown: the row of buttons under the chart.

import { KEPT } from "./kernel_notices.js";
import { eventsOf, nextEvent } from "./navigation.js";
import { meaning } from "./keys.js";
import { showTime } from "./lettering.js";

const SECONDS = 10; // a step played at speed 1
const PAUSE = 600; // milliseconds from event to event where motion is to be reduced

export const SPEEDS = [0.25, 0.5, 1, 2, 4];

const ICONS = {
  first: "M3 2v12M14 2L6 8l8 6z",
  back: "M4 2v12M13 2L6 8l7 6z",
  play: "M3 2l11 6-11 6z",
  pause: "M3 2h4v12H3zM9 2h4v12H9z",
  next: "M12 2v12M3 2l7 6-7 6z",
  nearer: "M8 3v10M3 8h10",
  further: "M3 8h10",
  all: "M1 8h14M4 4L1 8l3 4M12 4l3 4-3 4",
};

/** `time` to a thousandth of `end` or a little finer: more cannot be read off a moving cursor. */
export function legible(time, end) {
  const places = end > 0 ? Math.max(0, 3 - Math.floor(Math.log10(end))) : 0;
  return Math.round(time * 10 ** places) / 10 ** places;
}

/** Where time stands after `elapsed` milliseconds of play; the end is where it stops. */
export function advance(time, elapsed, end, speed) {
  return Math.min(end, time + (elapsed / 1000 / SECONDS) * speed * end);
}

function button(name, label) {
  return `<button type="button" class="ge-button" data-do="${name}" aria-label="${label}" title="${label}" ${KEPT}>${icon(name)}</button>`;
}

/** The one button that says in a word what it does: on a first visit a symbol alone is not taken for a button. */
function playerFace(name, word) {
  return `${icon(name)}<span>${word}</span>`;
}

function icon(name) {
  return `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${ICONS[name]}"/></svg>`;
}

function toggle(name, label, checked) {
  return `<label class="ge-check"><input type="checkbox" data-toggle="${name}" ${checked ? "checked" : ""} ${KEPT}> ${label}</label>`;
}

const SAVE = { svg: "SVG picture", png: "PNG picture", html: "page (HTML)", trace: "Chrome trace" };

/** A choice that does something at once and goes back to its name. Without a kernel the files could not be made. */
function saver() {
  const kinds = Object.entries(SAVE).map(([kind, name]) => `<option value="${kind}">${name}</option>`);
  return `<select class="ge-save" data-save aria-label="Save as" ${KEPT}><option value="">save as …</option>${kinds.join("")}</select>`;
}

/** A file of the reader's own; the browser asks which. */
function opener() {
  return (
    `<button type="button" class="ge-word" data-do="open" title="Draw a run that was saved as a Chrome trace" ${KEPT}>open trace …</button>` +
    `<input type="file" accept=".json,.gz,application/json,application/gzip" multiple hidden data-open aria-label="Trace to open" ${KEPT}>`
  );
}

/** kernel: whether there is one, to make and read files. on: {toggle(name, value), zoom("nearer" | "further" | "all"), speed(value), time(value), save(kind), open(files)}. */
export function createTransport(host, chart, { on, speed, toggles, kernel }) {
  const speeds = SPEEDS.map((each) => `<option value="${each}" ${each === speed ? "selected" : ""}>${each}×</option>`).join("");
  host.innerHTML =
    `<div class="ge-row" role="group" aria-label="Time"><span class="ge-buttons">${button("first", "To the start")}${button("back", "Previous event")}` +
    `<button type="button" class="ge-button ge-player" data-do="play" ${KEPT}></button>${button("next", "Next event")}</span>` +
    `<input class="ge-scrub" type="range" min="0" step="any" aria-label="Time" ${KEPT}><output class="ge-time"></output>` +
    `<label class="ge-field">speed <select data-speed ${KEPT}>${speeds}</select></label></div>` +
    `<div class="ge-row" role="group" aria-label="View"><span class="ge-buttons">${button("further", "Show more time")}` +
    `${button("nearer", "Show less time")}${button("all", "Show the whole step")}</span>${toggle("memory", "memory", toggles.memory)}` +
    `${toggle("critical", "critical path", toggles.critical)}${toggle("arrows", "transfers", toggles.arrows)}` +
    `<span class="ge-pair" hidden>${toggle("plan", "plan and run in one", false)}</span>` +
    `${toggle("table", "show as table", false)}${kernel ? saver() : ""}${opener()}</div>`;
  const scrub = host.querySelector(".ge-scrub");
  const output = host.querySelector(".ge-time");
  const player = host.querySelector('[data-do="play"]');
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let pace = speed;
  let playing = null; // what stops the play
  player.innerHTML = playerFace("play", "Play");

  function tell() {
    const shown = chart.specs[0].shown;
    output.textContent = `${showTime(legible(chart.cursor, chart.end), shown)} of ${showTime(chart.end, shown)}`;
    scrub.value = chart.cursor;
    scrub.setAttribute("aria-valuetext", output.textContent);
  }

  function go(time) {
    chart.moveCursor(time, true);
    tell();
    on.time(chart.cursor);
  }

  function fit() {
    const { end } = chart;
    scrub.max = end;
    tell();
  }

  function stop() {
    playing?.();
    playing = null;
    player.innerHTML = playerFace("play", "Play");
  }

  function play() {
    if (chart.cursor >= chart.end) go(0);
    player.innerHTML = playerFace("pause", "Pause");
    const shown = (time) => {
      go(time);
      if (chart.cursor >= chart.end) stop();
    };
    if (still.matches) {
      const timer = setInterval(() => shown(nextEvent(eventsOf(chart.specs), chart.cursor, 1)), PAUSE / pace);
      playing = () => clearInterval(timer);
      return;
    }
    let before = performance.now();
    let request = requestAnimationFrame(function frame(now) {
      request = requestAnimationFrame(frame);
      shown(advance(chart.cursor, now - before, chart.end, pace));
      before = now;
    });
    playing = () => cancelAnimationFrame(request);
  }

  const chooser = host.querySelector("[data-open]");
  const actions = {
    open: () => (kernel ? chooser.click() : on.open([])),
    first: () => go(0),
    back: () => go(nextEvent(eventsOf(chart.specs), chart.cursor, -1)),
    next: () => go(nextEvent(eventsOf(chart.specs), chart.cursor, 1)),
    play: () => (playing ? stop() : play()),
  };

  function act(name) {
    if (name !== "play") stop();
    (actions[name] ?? (() => on.zoom(name)))();
  }

  host.addEventListener("click", (event) => {
    const name = event.target.closest("[data-do]")?.dataset.do;
    if (name) act(name);
  });
  host.addEventListener("change", (event) => {
    const { toggle: name } = event.target.dataset;
    if (name) on.toggle(name, event.target.checked);
    if (event.target.matches("[data-save]") && event.target.value) {
      on.save(event.target.value);
      event.target.value = "";
    }
    if (event.target === chooser) {
      on.open([...chooser.files]);
      chooser.value = ""; // or the same file could not be chosen again
    }
    if (event.target.matches("[data-speed]")) on.speed((pace = Number(event.target.value)));
  });
  scrub.addEventListener("input", () => {
    stop();
    go(Number(scrub.value));
  });
  // A native range moves by a fixed step, which means nothing here: its arrow keys go from event to event.
  scrub.addEventListener("keydown", (event) => {
    const name = meaning("time", event);
    if (name === "last") go(chart.end);
    else if (name) act(name);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return {
    fit,
    tell,
    go,
    act,
    setSpeed(value) {
      pace = value;
      const option = [...host.querySelectorAll("[data-speed] option")].find((each) => Number(each.value) === value);
      if (option) option.selected = true;
    },
    /** Whether there is a plan and its run, so that they can share their lanes. */
    offerPlan(there) {
      host.querySelector(".ge-pair").hidden = !there;
    },
    setToggle(name, value) {
      host.querySelector(`[data-toggle="${name}"]`).checked = value;
    },
    stop,
  };
}
