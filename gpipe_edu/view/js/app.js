// The whole widget: controls, chart, time, explanation, table. A host (host.js) brings the data and takes the wishes.

import { createAnswerLine } from "./answer_line.js";
import { createAnswers } from "./answers.js";
import { overlaid } from "./overlaid.js";
import { createOpened } from "./opened_traces.js";
import { createChart } from "./chart.js";
import { createControls } from "./controls.js";
import { createTransport } from "./transport.js";
import { doingAt, explainMarkup, spoken } from "./explain.js";
import { itemAt } from "./navigation.js";
import { told } from "./keys.js";
import { LOST, PATIENCE, SILENT } from "./kernel_notices.js";
import { escape } from "./lettering.js";
import { legendMarkup } from "./legend.js";
import { neverRuns } from "./layout.js";
import { createTable } from "./table.js";

const REST = 150; // milliseconds without motion, after which the cursor is reported to the host and to screen readers
const HINT = "Point at an op or a bubble, or use the arrow keys: it says what it waited for and what it unblocks.";
const TAP = "Tap an op or a bubble: it says what it waited for and what it unblocks. Numbers are those of micro-batches.";
const SMALL = "(max-width: 600px)"; // as in gantt.css

/** A name for the patterns of one widget that no other widget on the page has. */
export function uniqueMark() {
  return `ge${Math.random().toString(36).slice(2, 9)}`;
}

/** data: {names, options, explorer, payload}; tell: {settings(wish), false without a kernel; state(name, value)}, and with a kernel ahead(wishes), save(kind), open(message, content). */
export function createApp(host, data, tell) {
  const mark = uniqueMark();
  host.classList.add("ge-gantt");
  host.dataset.lmSuppressShortcuts = "true";
  host.innerHTML =
    `<div class="ge-controls"></div><p class="ge-error" role="alert" hidden></p>` +
    `<div class="ge-opened" hidden></div><div class="ge-explain"></div><div class="ge-chart"></div>` +
    `<div class="ge-transport"></div><ul class="ge-words" hidden></ul>` +
    `<div class="ge-legend"></div><div class="ge-table" hidden></div><div class="ge-live" aria-live="polite"></div>`;
  const part = (name) => host.querySelector(`.ge-${name}`);
  const { names } = data;
  // Where one plays with a schedule, its transfers are what one looks for; over runs that are compared they are a thicket.
  const options = { ...data.options, arrows: Boolean(data.explorer) };
  const { speed } = options;
  const first = { memory: options.memory, critical: options.critical, arrows: options.arrows, plan: false, table: false };
  let memoryAlone = options.memory; // whether its lanes are shown when there is one chart
  let serial = 0;
  let shownSerial = -1;
  let early = -1; // the wish whose answer was on the screen before the reply to it came
  let payload = null;
  let stacked = []; // every spec by itself, as the table shows them
  let settings = data.explorer?.settings ?? null;
  let kept = null;
  const answers = createAnswers(tell.ahead);
  let silent = 0; // the timer that runs while an answer is due
  let resting = 0;

  const answer = createAnswerLine(part("explain"));
  const chart = createChart(part("chart"), {
    mark,
    names,
    on: {
      hover: describe,
      focus: (item) => {
        describe(item);
        if (item) say(spoken(chart.specs[item.panel], item, names));
        if (item) moveTo(item);
      },
      select: (item) => {
        describe(item);
        tell.state("selected", nameFor(item));
      },
      cursor: (time) => {
        transport.stop();
        transport.go(time);
      },
      zoom: (from, to) => tell.state("zoom", to === null ? [] : [from, to]),
      play: () => transport.act("play"),
    },
  });
  const transport = createTransport(part("transport"), chart, {
    speed,
    toggles: options,
    kernel: Boolean(tell.save),
    on: {
      save: tell.save,
      open: (files) => opened.open(files),
      toggle,
      zoom: (how) => (how === "all" ? chart.zoom(0, chart.end) : chart.zoomBy(how === "nearer" ? 0.5 : 2)),
      speed: (value) => tell.state("speed", value),
      time: rest,
    },
  });
  const table = createTable(part("table"), names);
  const opened = createOpened(part("opened"), host, {
    mark,
    ask: tell.open ?? null,
    base: () => payload.specs,
    on: {
      refuse,
      change(words) {
        draw();
        say(words);
        if (!host.contains(document.activeElement)) part("transport").querySelector('[data-do="open"]').focus();
      },
    },
  });
  const controls =
    data.explorer &&
    createControls(part("controls"), data.explorer, {
      settings,
      on: { change: wish, near, keep, reset },
    });
  part("controls").hidden = !controls;
  chart.set({ memory: options.memory, critical: options.critical, arrows: options.arrows });

  function nameFor(item) {
    if (item?.type !== "op") return "";
    const spec = chart.specs[item.panel];
    return `${spec.kind[item.index]}${spec.micro_batch[item.index]}@${spec.stage[item.index]}`;
  }

  function wish(next) {
    settings = next;
    serial += 1;
    const asked = { ...settings, kept, serial };
    clearTimeout(silent);
    if (!tell.settings(asked)) return lost();
    silent = setTimeout(() => refuse(SILENT), PATIENCE);
    const known = answers.get(asked);
    if (!known) return;
    show({ ...known, serial });
    early = serial;
    silent = setTimeout(() => refuse(SILENT), PATIENCE); // what is shown was known before; Python confirms it
  }

  /** There will be no answer: the controls go back to what the chart shows, or the two would contradict each other. */
  function lost() {
    settings = payload.settings;
    kept = payload.kept;
    controls.show(settings);
    controls.comparing(Boolean(kept));
    refuse(LOST);
  }

  /** Memory lanes are hidden while two charts share the screen, and come back when the first is alone again. */
  function keep() {
    kept = kept ? null : settings;
    controls.comparing(Boolean(kept));
    if (kept) memoryAlone = options.memory;
    press("memory", !kept && memoryAlone);
    wish(settings);
  }

  /** Everything as it was when the cell ran. */
  function reset() {
    kept = null;
    controls.start(data.explorer.settings);
    for (const [name, value] of Object.entries(first)) press(name, value);
    transport.setSpeed(speed);
    tell.state("speed", speed);
    chart.select(null);
    chart.focus(null);
    transport.go(chart.end);
    chart.moveCursor(chart.end, false);
    wish(data.explorer.settings);
  }

  /** As if the reader had ticked it. */
  function press(name, value) {
    transport.setToggle(name, value);
    toggle(name, value);
  }

  function near(list) {
    const ops = Math.max(...payload.specs.map(({ kind }) => kind.length));
    answers.ahead(list.map((each) => ({ ...each, kept })), ops);
  }

  /** A reply as text. One that is on the screen already is not even read: for a large step that takes milliseconds. */
  function reply(text) {
    const [, number] = text.match(/^\{"serial":(\d+),/);
    if (Number(number) !== early) return show(JSON.parse(text));
    early = -1;
    clearTimeout(silent);
    refuse("");
  }

  /** Why something can't be done, in a sentence; an empty one takes the last one away. */
  function refuse(words) {
    part("error").hidden = !words;
    part("error").textContent = words ?? "";
  }

  /** What Python made of a wish. Replies to older wishes than the one on the screen are dropped. */
  function show(next) {
    if (next.settings) answers.put({ ...next.settings, kept: next.kept }, next);
    if (next.serial < shownSerial) return;
    if (next.serial >= serial) clearTimeout(silent);
    shownSerial = next.serial;
    refuse(next.error);
    if (next.error) return;
    payload = next;
    if (next.settings && next.serial >= serial) {
      [serial, settings] = [next.serial, next.settings];
      controls?.show(settings);
    }
    draw();
    if (controls) sayLater(payload.specs[0].figures.join(", "));
  }

  /** What Python sent, and what the reader opened. */
  function draw() {
    const { specs, words } = payload;
    stacked = opened.beside(specs);
    const merged = overlaid(stacked);
    transport.offerPlan(merged);
    chart.show(merged && options.plan ? merged : stacked);
    transport.fit();
    describe(chart.selected);
    part("words").hidden = !words.length || !stacked.includes(specs[0]);
    part("words").innerHTML = words.map((line) => `<li>${escape(line)}</li>`).join("");
    legend();
    table.show(stacked);
  }

  function describe(item) {
    const found = item ?? chart.selected;
    answer.show(found ? explainMarkup(chart.specs[found.panel], found, names) : `<p class="ge-hint" title="${escape(told("chart").join("\n"))}">${matchMedia(SMALL).matches ? TAP : HINT}</p>`);
  }

  function moveTo({ panel, type, index }) {
    const spec = chart.specs[panel];
    transport.stop();
    chart.moveCursor(type === "op" ? spec.start[index] : spec.idle.start[index], false);
    transport.tell();
    rest();
  }

  function say(words) {
    part("live").textContent = words;
  }

  let saying = 0;
  function sayLater(words) {
    clearTimeout(saying);
    saying = setTimeout(() => say(words), REST);
  }

  function rest() {
    clearTimeout(resting);
    resting = setTimeout(() => {
      tell.state("cursor", chart.cursor);
      if (!part("transport").contains(document.activeElement)) return;
      const spec = chart.specs[0];
      const running = spec.stages.map((_, device) => itemAt(spec, device, chart.cursor)).map((item) => (item?.type === "op" && !neverRuns(spec, item.index) ? item.index : null));
      say(doingAt(running, spec, chart.cursor));
    }, REST);
  }

  function toggle(name, value) {
    if (name === "table") {
      part("table").hidden = !value;
      table.show(stacked);
      return;
    }
    options[name] = value;
    if (name === "plan") return draw();
    if (name === "critical") answers.forget();
    chart.set({ [name]: value });
    legend();
    if (name !== "arrows") tell.state(name === "critical" ? "critical_path" : name, value);
  }

  function legend() {
    part("legend").innerHTML = legendMarkup(chart.specs, names, options, `${mark}-l`);
  }

  return {
    show,
    refuse,
    reply,
    got: answers.got,
    opened: opened.heard,
    destroy() {
      transport.stop();
      clearTimeout(silent);
      clearTimeout(resting);
      clearTimeout(saying);
      chart.destroy();
    },
    /** State that was set from outside, by name. */
    state(name, value) {
      if (name === "theme") host.dataset.theme = value;
      // JupyterLite hands a trait that is None over as undefined.
      if (name === "cursor" && value != null && value !== chart.cursor) {
        chart.moveCursor(value, true);
        transport.tell();
      }
      if (name === "speed") transport.setSpeed(value);
      const look = { memory: "memory", critical_path: "critical" }[name];
      if (look && options[look] !== value) {
        options[look] = value;
        chart.set({ [look]: value });
        transport.setToggle(look, value);
        legend();
      }
      if (name === "zoom") chart.zoom(value.length ? value[0] : 0, value.length ? value[1] : chart.end);
      if (name === "selected" && value !== nameFor(chart.selected)) chart.select(find(value));
    },
  };

  function find(name) {
    for (let panel = 0; panel < chart.specs.length; panel++) {
      const { kind } = chart.specs[panel];
      for (let index = 0; index < kind.length; index++) {
        if (nameFor({ panel, type: "op", index }) === name) return { panel, type: "op", index };
      }
    }
    return null;
  }
}
