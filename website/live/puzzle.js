// The puzzle as a page: its board comes with the page and takes moves at once; Python answers them when it is up.

import "../assets/height.js";
import { createPuzzle } from "../../gpipe_edu/puzzles/page/js/puzzle_app.js";
import { createModel } from "./model.js";
import { announce, createPython, keep, kept, startWhenIdle } from "./python.js";

const FIRST = JSON.parse(document.getElementById("first").textContent); // {offer, answers: {level: answer}}
const SHOWN = "gpipe_edu puzzle shown"; // the last answer, for the next visit
const WAITING = "Python has not answered yet, it may be starting. Your move is kept, and answered as soon as it can be.";

/** What the address asks for: a share string or a level. */
function wanted() {
  const text = decodeURIComponent(location.hash.slice(1));
  if (text.startsWith("level=")) return { level: text.slice("level=".length) };
  return text ? { share: text } : {};
}

const asked = wanted();
const plain = !asked.level && !asked.share;
let widget = null; // a promise of its model
let moves = 0;

const python = createPython();
const puzzle = createPuzzle(document.getElementById("puzzle"), FIRST.offer, send, WAITING);

function show(text) {
  const answer = JSON.parse(text);
  puzzle.show(answer);
  if (answer.share) history.replaceState(null, "", `#${encodeURIComponent(answer.share)}`);
  // On the next visit it is what Python will begin with, without what was said about the last move.
  if (plain) keep(SHOWN, JSON.stringify({ ...answer, serial: 0, did: "", message: "", accepted: true }));
}

function tellKept(words) {
  document.getElementById("kept").textContent = words;
}

function open() {
  widget ??= python.ask("puzzle", asked).then(({ widget: number, state }) => {
    const model = createModel(python, number, state);
    model.on("change:answer", () => show(model.get("answer")));
    tellKept("");
    if (!moves) show(state.answer);
    return model;
  });
  return widget;
}

function send(content) {
  moves += 1;
  if (!document.documentElement.dataset.python) tellKept(`${moves === 1 ? "Your move is" : `Your ${moves} moves are`} kept, and answered when Python is up.`);
  const packages = content.do === "run" ? ["numpy", "threadpoolctl"] : undefined; // which training needs
  open()
    .then(({ number }) => python.ask("message", { widget: number, content }, packages))
    .catch(fail);
}

function fail({ message }) {
  tellKept("");
  announce(message);
}

const begin = () => open().catch(fail);
const before = plain && kept(SHOWN);

puzzle.show(before ? JSON.parse(before) : (FIRST.answers[asked.level] ?? FIRST.answers[""]));
addEventListener("hashchange", () => location.reload());
if (window === top) startWhenIdle(begin);
else {
  // A lesson, which may hold several: Python is for those who play, and no two parts of the page have the same name.
  document.documentElement.classList.add("inside");
  document.getElementById("content").ariaLabel = window.frameElement?.title ?? document.title;
}
document.getElementById("puzzle").addEventListener("pointerdown", begin, { once: true });
