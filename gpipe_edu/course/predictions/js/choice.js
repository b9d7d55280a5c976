// Options with letters.
import { html, make, ours } from "./parts.js";

export function choice(options, name, changed) {
  const radios = options.map(([letter]) => make("input", { ...ours, type: "radio", name, value: letter }));
  const rows = options.map(([letter, text], i) => {
    const mark = make("span", { class: "ge-prediction-mark" });
    return make("label", {}, radios[i], make("b", {}, `${letter}.`), html("span", {}, text), mark);
  });
  const node = make("div", { role: "radiogroup", "aria-labelledby": `${name}-question` }, ...rows);
  node.addEventListener("change", changed);
  return {
    node,
    value: () => radios.find((radio) => radio.checked)?.value,
    reveal(chosen, solution) {
      rows.forEach((row, i) => {
        const letter = radios[i].value;
        radios[i].checked = letter === chosen;
        radios[i].disabled = true;
        row.classList.toggle("ge-prediction-right", letter === solution);
        row.classList.toggle("ge-prediction-wrong", letter === chosen && letter !== solution);
        row.lastChild.textContent = remark(letter === chosen, letter === solution);
      });
    },
  };
}

function remark(chosen, right) {
  if (chosen) return right ? "\u2713 you said this, and this it is" : "\u2717 you said this";
  return right ? "\u2713 it is this" : "";
}
