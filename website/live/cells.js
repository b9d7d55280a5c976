// The cells of a page: each has its code, which can be changed and run, and below it what came of it.

import { createEditor } from "./editor.js";
import { createOutputs } from "./outputs.js";
import { announce, createPython, keep, kept, startWhenIdle, store } from "./python.js";
import { answerQuestions } from "./questions.js";
import { readSections } from "./store.js";
import { createWidgets } from "./widgets.js";

const PAGE = document.body.dataset.page;
const WORDS = { waits: "waits for Python", runs: "runs ...", done: "ran" };
const KEYS = "Shift+Enter runs it and goes on; Escape, then Tab, leaves";
const PATIENCE = 3; // seconds until a running cell says how long it has been running
const LONG = 10; // and until it says why

const widgets = createWidgets();
let stopped = false;
const python = createPython({ hear, first: "cells" });
const cells = [...document.querySelectorAll("section.cell[data-cell]")].map(createCell);
const bar = document.getElementById("running");

/** What Python says while it works. */
function hear(event) {
  if (event.module) return widgets.learn(event);
  cells.find((cell) => cell.name === event.cell)?.hear(event);
}

function createCell(section, index) {
  const name = section.dataset.cell;
  const pre = section.querySelector("pre.code");
  const stands = section.querySelector(".stands");
  const taken = section.querySelector(".taken");
  const back = section.querySelector("[data-do=back]");
  const above = section.querySelector("[data-do=above]");
  const place = section.querySelector(".outputs");
  const runButton = section.querySelector("[data-do=run]");
  const given = pre.textContent.replace(/\n$/, "");
  const storedAs = `gpipe_edu cell ${PAGE} ${name}`;
  const outputs = createOutputs(place, (el, widget) => widgets.show(python, el, widget));
  let text = kept(storedAs) || given;
  let editor = null;
  let runs = 0;
  let clock = 0;

  /** A question that the page itself answers stays as it is. */
  const asks = () => text === given && place.querySelector("script.ask");

  const cell = {
    name,
    section,
    state: "",
    needsPyTorch: section.dataset.needs === "pytorch",

    hear({ begins, stream, text: words, line, display, error }) {
      if (begins) {
        cell.stand("runs");
        if (!asks()) {
          place.style.minHeight = `${place.offsetHeight}px`; // what is below must not jump
          outputs.clear();
        }
      } else if (asks()) return;
      else if (stream) outputs.print(stream, words);
      else if (line) outputs.line(line, words);
      else if (display) outputs.display(display);
      else if (error !== undefined) outputs.fail(error);
    },

    stand(state) {
      cell.state = state;
      const busy = state === "runs" || state === "waits";
      stands.textContent = WORDS[state] ?? state;
      clearInterval(clock);
      taken.textContent = "";
      if (state === "runs") clock = countSeconds(taken);
      if (runButton) runButton.textContent = busy ? "Stop" : "Run";
      section.setAttribute("aria-busy", busy);
      showRunning();
    },

    /** Run it; returns whether it ran to its end. code: instead of what is in it. */
    async run(code = text) {
      if (cell.needsPyTorch) return false;
      runs += 1;
      const mine = runs;
      stopped = false;
      above.hidden = true;
      cell.stand("waits");
      try {
        const packages = await python.ask("packages", { code });
        const { ended, missing } = await python.ask("run", { cell: name, number: index + 1, code }, packages);
        above.hidden = !missing || !cells.slice(0, index).some((each) => each.state !== "done" && !each.needsPyTorch);
        if (mine === runs) cell.stand(ended || "done");
        return !ended;
      } catch (error) {
        if (mine === runs) cell.stand(error.message === "stopped" ? "stopped" : "");
        if (error.message !== "stopped") announce(error.message);
        return false;
      } finally {
        place.style.minHeight = "";
      }
    },

    edit() {
      if (cell.needsPyTorch) return;
      if (!editor) {
        const box = document.createElement("div");
        box.className = "editor";
        pre.replaceWith(box);
        editor = createEditor(box, text, `Code of cell ${index + 1}`, {
          change,
          run: section.dataset.check ? actions.check : () => cell.run(),
          runAndGoOn() {
            cell.run();
            goTo(cells[index + 1]);
          },
        });
        stands.before(Object.assign(document.createElement("span"), { className: "keys", textContent: KEYS }));
      }
      editor.focus();
    },
  };

  function change(now) {
    text = now;
    if (cell.state === "done") cell.stand("");
    back.hidden = text === given;
    keep(storedAs, text === given ? "" : text);
  }

  const actions = {
    run: () => (runButton.textContent === "Stop" ? stop() : cell.run()),
    edit: () => cell.edit(),
    above: () => runUpTo(index),
    back() {
      if (editor) editor.replace(given);
      else pre.textContent = given;
      change(given);
    },
    check: () => check(index, section.dataset.check),
    hint: () => cell.run(text.replace(/^# (hint\(.*?\)).*$/m, "$1")),
  };
  section.querySelector(".tools").addEventListener("click", ({ target }) => actions[target.dataset.do]?.());
  pre.addEventListener("click", () => getSelection().isCollapsed && cell.edit());
  if (text !== given) {
    pre.textContent = text;
    back.hidden = false;
  }
  return cell;
}

/** Say in `place` how long something takes, if it takes long; returns the interval that does so. */
function countSeconds(place) {
  const began = performance.now();
  return setInterval(() => {
    const seconds = Math.floor((performance.now() - began) / 1000);
    if (seconds < PATIENCE) return;
    place.textContent = seconds < LONG ? `${seconds} s` : `${seconds} s; Python is several times slower in a browser`;
  }, 1000);
}

/** Run all cells above that have not run, and then this one; stops where one fails, unless `passing` over those. */
async function runUpTo(index, passing = false) {
  const due = cells.slice(0, index).filter((cell) => cell.state !== "done" && !cell.needsPyTorch);
  due.push(cells[index]);
  for (const cell of due) cell.stand("waits");
  for (const cell of due) {
    if (await cell.run()) continue;
    if (passing && cell !== cells[index] && !stopped) continue;
    for (const each of due) if (each.state === "waits") each.stand("");
    return false;
  }
  return true;
}

/** Edit the next cell; where it is folded away behind a question, go to the button that unfolds it. */
function goTo(cell) {
  if (!cell) return;
  const fold = cell.section.closest(".folded");
  if (fold) fold.previousElementSibling.focus();
  else if (!cell.needsPyTorch) cell.edit();
}

/** End whatever runs or waits. */
function stop() {
  python.startAnew();
  stopped = true; // until another cell is run
  bar.hidden = false;
  bar.querySelector("span").textContent = "Stopped. Python was started anew: what cells had defined is gone.";
  bar.querySelector("button").hidden = true;
  for (const cell of cells) if (cell.state === "done") cell.stand("");
}

/** An exercise: run what is above, the answer, then the cell that checks it. Other exercises may be unwritten. */
async function check(index, checking) {
  const judge = cells.find((cell) => cell.name === checking);
  const defined = await runUpTo(index, true);
  if (defined) await judge.run();
  markSolved(await store.read());
  (defined ? judge : cells[index]).section.querySelector(".outputs").scrollIntoView({ block: "nearest" });
}

/** Show what the learner's file says about the exercises of this page. */
function markSolved(text) {
  const kept = readSections(text).exercises ?? {};
  for (const { section } of cells) section.querySelector(".solved").hidden = !kept[section.dataset.exercise]?.passed;
}

function showRunning() {
  if (stopped) return;
  const busy = cells.findIndex((cell) => cell.state === "runs");
  const waiting = cells.filter((cell) => cell.state === "waits").length;
  bar.hidden = busy < 0 && !waiting;
  bar.querySelector("button").hidden = false;
  const words = busy < 0 ? "" : `Cell ${busy + 1} runs. `;
  bar.querySelector("span").textContent = words + (waiting ? `${waiting} wait${waiting === 1 ? "s" : ""}.` : "");
}

bar.querySelector("button").addEventListener("click", () => {
  const running = cells.find((cell) => cell.state === "runs" || cell.state === "waits");
  stop();
  running?.section.querySelector("[data-do=run]").focus({ preventScroll: true }); // this button is gone
});
answerQuestions(store, python.tell);
store.read().then(markSolved);
store.watch(markSolved);
startWhenIdle(python.start);
document.addEventListener("focusin", ({ target }) => target.closest("section.cell") && python.start());
