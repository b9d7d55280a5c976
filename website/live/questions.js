// The predictions of a page: it answers them itself, before Python is up and without it.

import { render } from "../../gpipe_edu/course/predictions/js/prediction.js";
import { readSections } from "./store.js";

const SECTION = "predictions"; // of the learner's file

/** tell(text): is given the learner's file after an answer. */
export async function answerQuestions(store, tell) {
  const questions = [...document.querySelectorAll("script.ask")].map((script) => ask(script, store, tell));
  showTarget();
  addEventListener("hashchange", showTarget);
  const kept = readSections(await store.read())[SECTION] ?? {};
  for (const question of questions) question.recall(kept);
}

function ask(script, store, tell) {
  const asked = JSON.parse(script.textContent);
  const state = { question: asked.question, options: asked.options, outcome: {} };
  let heard = () => {};
  const after = script.closest("section").nextElementSibling;
  const open = after?.classList.contains("after") ? fold(after) : () => {};

  /** keep(answer): what has to be done before the reply is shown. */
  async function answer(form, given, keep = () => {}) {
    const replies = await unpack(asked.answers);
    const said = replies.find((one) => one[form] === given);
    if (!said) return; // kept for an earlier edition, which had other answers
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

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

/** Fold `part` away, with a button to open it; returns a function that opens it. */
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
