// The frame of the puzzle and what is written in it: markup only.

import { KEPT } from "../../../view/js/kernel_notices.js";
import { told } from "../../../view/js/keys.js";
import { escape } from "../../../view/js/lettering.js";
import { figureMarkup } from "../../../view/js/panel.js";
import { levelWords, sentence } from "./puzzle_moves.js";

const CHECK = "M2 8.5l4 4 8-9";

function push(name, label, more = "") {
  return `<button type="button" class="ge-word" data-do="${name}" ${more} ${KEPT}>${label}</button>`;
}

function tick(name, label, words) {
  return `<label class="ge-check" title="${words}"><input type="checkbox" data-tick="${name}" ${KEPT}> ${label}</label>`;
}

/** The keys, where they count. */
function keysMarkup() {
  const lines = (place) => told(place).map((line) => `<br>${escape(line)}`).join("");
  return `<p><b>On the board</b>${lines("board")}</p><p><b>On the ops to place</b>${lines("ops")}</p><p><b>Everywhere</b>${lines("puzzle")}</p>`;
}

/** Everything that is always there. */
export function frameMarkup({ largest }) {
  const size = (name, label, value, most) =>
    `<label class="ge-field">${label} <input type="number" data-size="${name}" value="${value}" min="${most ? 1 : 0}" ${most ? `max="${most}"` : 'step="any"'} ${KEPT}></label>`;
  return (
    `<nav class="gp-levels" aria-label="Levels"></nav>` +
    `<form class="gp-sandbox ge-row" novalidate hidden>${size("K", "devices K", 4, largest.K)}${size("M", "micro-batches M", 8, largest.M)}` +
    `${size("V", "stages V", 1, largest.V)}${size("B", "B takes", 2)}${size("send", "sending", 0)}${size("cap", "cap", "")}` +
    `<button type="submit" class="ge-word" ${KEPT}>Build these sizes</button></form>` +
    `<ul class="ge-figures gp-figures"></ul><div class="gp-desk"><div class="gp-side"><div class="gp-level"></div>` +
    `<div class="gp-said" role="status" aria-live="polite"></div><div class="gp-solved" hidden></div>` +
    `<span class="ge-row gp-group" role="group" aria-label="Hint"><span class="ge-name">hint:</span>` +
    `${push("hint", "where", 'data-size="1" aria-label="Hint: where"')}${push("hint", "what", 'data-size="2" aria-label="Hint: what kind"')}` +
    `${push("hint", "which", 'data-size="3" aria-label="Hint: which op"')}</span>` +
    `<ul class="gp-problems" hidden></ul></div>` +
    `<div class="gp-play"><div class="gp-board"></div></div>` +
    `<div class="gp-palette" role="group" aria-label="Ops to place"></div></div>` +
    `<div class="ge-row gp-tools" role="group" aria-label="Build">${push("undo", "Undo")}${push("redo", "Redo")}` +
    `${push("remove", "Take away")}${push("clear", "Clear")}<span class="ge-gap"></span>` +
    `${push("run_on", "Run on", `title="Place what leaves nothing to decide, until a device has a choice or would wait"`)}` +
    `${push("stamp", "Stamp for all", `title="Give all micro-batches the pattern of micro-batch 0, as you have built it"`)}` +
    `${push("finish", "Finish for me", `title="Place all that is left; each op counts as a hint"`)}` +
    `${tick("ghosts", "ready moves", "Show on the board what could be placed now")}${tick("free", "free editing", "Nothing is refused; what is wrong is listed")}</div>` +
    `<div class="ge-row gp-tools"><form class="gp-type"><label class="ge-field">type ops ` +
    `<input type="text" class="gp-text" placeholder="F0@1, or 1: F0 F1" autocomplete="off" spellcheck="false" ${KEPT}></label>` +
    `<button type="submit" class="ge-word" ${KEPT}>Place</button></form>` +
    `<details class="gp-more"><summary ${KEPT}>Why is this par?</summary><div class="gp-why"></div>${push("prove", "Prove it")}<p class="gp-proof" role="status"></p></details>` +
    `<details class="gp-more"><summary ${KEPT}>Share this board, open another</summary><div class="ge-row">${push("csv", "Download as CSV", `title="PyTorch's pipeline CSV, which trainers take"`)}` +
    `<span class="gp-csv" hidden></span></div><div class="ge-row">${push("share", "Make a share string")}` +
    `<input type="text" class="gp-string" aria-label="Share string of this board" readonly hidden ${KEPT}>${push("copy", "Copy", "hidden")}</div>` +
    `<form class="gp-open ge-row"><label class="ge-field">open a share string <input type="text" class="gp-string" data-open autocomplete="off" spellcheck="false" ${KEPT}></label>` +
    `<button type="submit" class="ge-word" ${KEPT}>Open</button></form></details>` +
    `<details class="gp-more"><summary ${KEPT}>Colours, keys, progress</summary><div class="ge-legend"></div>${keysMarkup()}<p class="gp-where"></p></details></div><div class="gp-run" hidden></div>` +
    `<p class="ge-error" role="alert" hidden></p><div class="ge-live" aria-live="polite"></div>`
  );
}

/** The row of levels: number, and a check on those that are solved. */
export function levelsMarkup(levels, current) {
  const chips = levels.map((level, index) => {
    const solved = level.best !== null;
    const here = level.key === current ? ' aria-current="step"' : "";
    const words = escape(`Level ${levelWords(level, index + 1)}`);
    const drawn = solved ? `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${CHECK}"/></svg>` : "";
    const mark = level.hinted ? `<small aria-hidden="true">?</small>` : "";
    return `<li><button type="button" class="gp-chip${solved ? " gp-done" : ""}" data-level="${level.key}" aria-label="${words}" title="${words}"${here} ${KEPT}>${index + 1}${drawn}${mark}</button></li>`;
  });
  return `<ol>${chips.join("")}</ol>`;
}

/** Title, lesson and task of the level. */
export function levelMarkup({ title, lesson, task }, number) {
  return (
    `<h3 class="ge-title">${number}. ${escape(title)}</h3><p class="gp-lesson">${escape(lesson)}</p>` +
    `<p class="gp-task">${escape(task)}</p>`
  );
}

export function figuresMarkup(figures) {
  return figures.map(figureMarkup).join("");
}

/** What was said last: why a move was refused, what was done, a hint. kind: "no", "yes" or "note". back: moves to take back. */
export function saidMarkup(text, kind, back = 0) {
  if (!text) return "";
  if (back) return `${saidMarkup(text, kind)}${push("back", `Take back ${back} move${back === 1 ? "" : "s"}`, `data-moves="${back}"`)}`;
  return `<p class="gp-${kind}">${kind === "no" ? `<b>No:</b> ${escape(sentence(text))}` : escape(spelled(text))}</p>`;
}

/** A sentence that stands by itself: a capital and a full stop. */
function spelled(text) {
  return sentence(text[0].toUpperCase() + text.slice(1));
}

/** What to do with a solved level; that it is solved has been said. next: the level after it, null after the last. */
export function solvedMarkup(engines, next) {
  const runs = engines.map((engine) => {
    const name = { numpy: "NumPy", torch: "PyTorch" }[engine];
    return push("run", `Run it for real (${name})`, `data-engine="${engine}"`);
  });
  const onward = next ? push("next", `Next level: ${escape(next.title)}`, `data-next="${next.key}" data-primary`) : "";
  return `<div class="ge-row">${runs.join("")}${onward}</div>`;
}

/** Why par is par. proof: how that is known, in a clause. */
export function whyMarkup({ par, par_why: why, goal, proof }) {
  const words = par === null ? proof : `Par is ${par}: ${why} How that is known: ${proof}`;
  const easier = goal !== null && par !== null && goal > par ? ` ${goal} is enough to solve the level.` : "";
  return `<p>${escape(sentence(words))}${escape(easier)}</p>`;
}

export function proofWords({ text, bound }) {
  return `A bound, without any search: nothing is done before ${bound}. The search, just now: ${sentence(text)}`;
}

/** What a run gave, beside its chart. */
export function runMarkup({ text, equal, words, engine }) {
  const name = { numpy: "NumPy", torch: "PyTorch" }[engine];
  return (
    `<h4>Your schedule, run on ${name}</h4><p class="gp-${equal ? "yes" : "no"}">${escape(text)}</p>` +
    `<div class="ge-explain"><p class="ge-hint">Point at an op or a bubble, or use the arrow keys: it says what it waited for.</p></div>` +
    `<div class="ge-chart"></div><ul class="ge-words">${words.map((line) => `<li>${escape(line)}</li>`).join("")}</ul>`
  );
}
