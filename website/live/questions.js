// The predictions of a page: it answers them itself, before Python is up and without it.

import { render } from "../../gpipe_edu/course/predictions/js/prediction.js";
import { readSections } from "./store.js";

const SECTION = "predictions"; // of the learner's file

/** tell(text): the learner's file after an answer. */
export async function answerQuestions(store, tell) {
  const questions = [...document.querySelectorAll("script.ask")].map((script) => ask(script, store, tell));
  showTarget();
  addEventListener("hashchange", showTarget);
  const kept = readSections(await store.read())[SECTION] ?? {};
  for (const question of questions) question.recall(kept);
}

function ask(script, store, tell) {
  const asked = JSON.parse(script.textContent);
  const state = { kind: asked.kind, question: asked.question, asked: asked.asked, outcome: {} };
  let heard = () => {};
  const after = script.closest("section").nextElementSibling;
  const open = after?.classList.contains("after") ? fold(after) : () => {};

  /** keep(answer): what has to be done before the reply is shown. */
  async function answer(form, given, keep = () => {}) {
    const said = findReply(await unpack(asked.answers), asked.kind, form, given);
    if (!said) return;
    await keep(said.kept);
    state.outcome = said;
    heard();
    open();
  }

  async function keep(answer) {
    const before = await store.read();
    const sections = readSections(before);
    sections[SECTION] = { ...sections[SECTION], [asked.key]: answer };
    tell(await store.keep(`${JSON.stringify(sections, null, 2)}\n`, before));
  }

  const model = {
    get: (name) => state[name],
    on: (_name, handler) => (heard = handler),
    off() {},
    send: ({ commit }) => answer("given", commit, keep),
  };
  const place = document.createElement("div");
  script.after(place);
  render({ model, el: place });
  return { recall: (kept) => asked.key in kept && answer("kept", kept[asked.key]) };
}

/** What is said to an answer as it was given, or as it was kept; undefined to one that the question no longer has. */
function findReply(answers, kind, form, answer) {
  if (kind === "curve") return findReplyToCurve(answers, answer);
  const same = (one) => (typeof answer === "number" ? Math.abs(one - answer) < 1e-9 : one === answer);
  return answers.replies.find((one) => same(one[form]));
}

function findReplyToCurve(answers, curve) {
  const truth = answers.right.solution;
  if (curve.length !== truth.length) return undefined;
  // To nine digits, as in Python: the order in which numbers are added up must not decide.
  const mean = (values) => Math.round((values.reduce((sum, value) => sum + value, 0) / values.length) * 1e9) / 1e9;
  const off = mean(curve.map((value, i) => Math.abs(value - truth[i])));
  const said = off <= answers.near ? answers.right : mean(curve) < mean(truth) ? answers.low : answers.high;
  return { ...said, chosen: curve, kept: curve };
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

/** Fold `part` away, with a button to open it; returns what opens it. */
function fold(part) {
  const button = document.createElement("button");
  button.className = "unfold";
  button.textContent = "Show what follows without answering";
  const open = () => {
    part.classList.remove("folded");
    button.remove();
  };
  button.addEventListener("click", open);
  part.classList.add("folded");
  part.before(button);
  part.addEventListener("open", open);
  return open;
}

/** What the address names is opened, if it was folded away. */
function showTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const part = target?.closest(".folded");
  if (!part) return;
  part.dispatchEvent(new Event("open"));
  target.scrollIntoView();
}
