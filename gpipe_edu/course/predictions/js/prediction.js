// A prediction on the page. It knows the question; the answer comes from Python, after the commit.
import { choice } from "./choice.js";
import { html, make, ours } from "./parts.js";
import { LOST, PATIENCE, SILENT } from "../../../view/js/kernel_notices.js";
import { passOn } from "../../../view/js/pass_on.js";

export function render({ model, el }) {
  // Several predictions are on one page, each with its own copy of this module: a counter would start anew in each.
  const name = `ge-prediction-${Math.random().toString(36).slice(2)}`;
  const button = make("button", { ...ours, type: "submit", disabled: "" }, "Commit");
  const options = choice(model.get("options"), name, () => (button.disabled = false));
  const hint = make("span", { class: "ge-prediction-hint", role: "status" }, "Choose, then commit. You see the answer afterwards.");
  const controls = make("p", {}, button, hint);
  const words = make("div", { class: "ge-prediction-words", role: "status", "aria-live": "polite" });
  const text = html("div", { id: `${name}-question`, class: "ge-prediction-question" }, model.get("question"));
  const title = make("p", { class: "ge-prediction-title" }, "Predict");
  const form = make("form", { class: "ge-prediction" }, title, text, options.node, controls, words);
  let timer;
  let committed = false; // here, just now: the button that has the focus is disabled, which may take the focus away

  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leave(event.target);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = options.value();
    if (chosen === undefined) return;
    committed = true;
    button.disabled = true;
    const tell = (sentence) => {
      hint.textContent = sentence;
      button.disabled = false;
    };
    try {
      model.send({ commit: chosen });
    } catch {
      tell(LOST);
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(() => tell(SILENT), PATIENCE);
  });

  function show() {
    const { chosen, solution, right, words: sentences } = model.get("outcome");
    if (chosen == null) return;
    clearTimeout(timer);
    const { activeElement } = document;
    const held = form.contains(activeElement) || (committed && activeElement === document.body);
    options.reveal(chosen, solution);
    controls.hidden = true;
    form.classList.add(right ? "ge-prediction-won" : "ge-prediction-lost");
    title.textContent = right ? "\u2713 Right" : "\u2717 Not so";
    words.innerHTML = sentences;
    // The button that had the focus is gone; the words take it, so that the keyboard stays where it was.
    words.tabIndex = -1;
    words.setAttribute("data-lm-suppress-shortcuts", "true");
    if (held) words.focus({ preventScroll: true });
  }

  model.on("change:outcome", show);
  show();
  const stopPassing = passOn(form);
  el.append(form);
  return () => {
    clearTimeout(timer);
    stopPassing();
    model.off("change:outcome", show);
  };
}

// Give the keyboard back to the notebook: its shortcuts work while the focus is in a cell, outside of our controls.
function leave(node) {
  const cell = node.closest(".jp-Cell, .jp-Notebook");
  node.blur();
  cell?.closest(".jp-Notebook")?.focus({ preventScroll: true });
}
