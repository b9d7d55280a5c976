// The rows of a schedule, evenly spaced, because they tell the order and no times; one op of them to click.
import { make, ours } from "./parts.js";

export function click(asked, name, changed) {
  const chips = [];
  const rows = asked.rows.map((row, k) => {
    const ops = row.map((op) => {
      const [fill, ink] = asked.paints[op.kind];
      const look = `background: ${fill}; color: ${ink}`;
      if (!op.open) return make("span", { class: "ge-prediction-chip", style: look }, op.name);
      const radio = make("input", { ...ours, type: "radio", name, value: op.op, "aria-label": `${op.name} on device ${k}` });
      const chip = make("label", { class: "ge-prediction-chip", style: look }, radio, op.name);
      chips.push({ radio, chip });
      return chip;
    });
    return make("div", { class: "ge-prediction-row" }, make("span", {}, `device ${k}`), ...ops);
  });
  const node = make("div", { class: "ge-prediction-rows", role: "radiogroup", "aria-labelledby": `${name}-question` }, ...rows);
  node.addEventListener("change", changed);
  return {
    node,
    invitation: "Click an op, then commit.",
    value: () => chips.find(({ radio }) => radio.checked)?.radio.value,
    reveal(chosen, solution) {
      for (const { radio, chip } of chips) {
        radio.checked = radio.value === chosen;
        radio.disabled = true;
        chip.classList.toggle("ge-prediction-hit", radio.value === solution);
        chip.classList.toggle("ge-prediction-miss", radio.value === chosen && chosen !== solution);
        if (radio.value === solution) chip.append(" \u2713");
        else if (radio.value === chosen) chip.append(" \u2717");
      }
    },
  };
}
