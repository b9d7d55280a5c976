// A prediction on the page. It knows question and options; the answer comes from Python, after the commit.

const PATIENCE = 3000; // ms after which we tell why nothing happens: the kernel runs another cell

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Without it Jupyter takes the keys: the arrows would move between cells, and "d d" would delete one.
const ours = { "data-lm-suppress-shortcuts": "true" };

function html(name, attributes, text) {
  const node = make(name, attributes);
  node.innerHTML = text; // made from Markdown by Python, which lets no tags through
  return node;
}

function remark(chosen, right) {
  if (chosen) return right ? "you said this, and this it is" : "you said this";
  return right ? "it is this" : "";
}

function render({ model, el }) {
  // Several predictions stand on one page, each with this module for itself: a counter would start anew in every one.
  const group = `ge-prediction-${Math.random().toString(36).slice(2)}`;
  const radios = model.get("options").map(([letter]) => make("input", { ...ours, type: "radio", name: group, value: letter }));
  const rows = model.get("options").map(([letter, text], i) => {
    const mark = make("span", { class: "ge-prediction-mark" });
    return make("label", {}, radios[i], make("b", {}, `${letter}.`), html("span", {}, text), mark);
  });
  const button = make("button", { ...ours, type: "submit", disabled: "" }, "Commit");
  const hint = make("span", { class: "ge-prediction-hint", role: "status" }, "Choose, then commit. You see the answer afterwards.");
  const controls = make("p", {}, button, hint);
  const words = make("div", { class: "ge-prediction-words", role: "status", "aria-live": "polite" });
  const options = make("div", { role: "radiogroup", "aria-labelledby": `${group}-question` }, ...rows);
  const text = html("div", { id: `${group}-question`, class: "ge-prediction-question" }, model.get("question"));
  const form = make("form", { class: "ge-prediction" }, make("h4", {}, "Predict"), text, options, controls, words);
  let timer;

  form.addEventListener("change", () => (button.disabled = false));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leave(event.target);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = radios.find((radio) => radio.checked);
    if (!chosen) return;
    button.disabled = true;
    const tell = (sentence) => {
      hint.textContent = sentence;
      button.disabled = false;
    };
    try {
      model.send({ commit: chosen.value });
    } catch {
      tell("The kernel has stopped. Start it again, then run this cell again.");
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(() => tell("No reply from the kernel yet. Does another cell run? The answer comes when it is done."), PATIENCE);
  });

  function show() {
    const { chosen, right, words: sentences } = model.get("outcome");
    if (!chosen) return;
    clearTimeout(timer);
    const held = form.contains(document.activeElement);
    rows.forEach((row, i) => {
      const letter = radios[i].value;
      radios[i].checked = letter === chosen;
      radios[i].disabled = true;
      row.classList.toggle("ge-prediction-right", letter === right);
      row.classList.toggle("ge-prediction-chosen", letter === chosen);
      row.lastChild.textContent = remark(letter === chosen, letter === right);
    });
    controls.hidden = true;
    words.innerHTML = sentences;
    // The button that had the focus is gone; the words take it, so that the keyboard stays where one was.
    words.tabIndex = -1;
    words.setAttribute("data-lm-suppress-shortcuts", "true");
    if (held) words.focus({ preventScroll: true });
  }

  model.on("change:outcome", show);
  show();
  el.append(form);
  return () => {
    clearTimeout(timer);
    model.off("change:outcome", show);
  };
}

// Give the keyboard back to the notebook: its shortcuts work while the focus is in a cell, outside of our controls.
function leave(node) {
  const cell = node.closest(".jp-Cell, .jp-Notebook");
  node.blur();
  cell?.closest(".jp-Notebook")?.focus({ preventScroll: true });
}

export default { render };
