// What came of running the board for real: measured against planned, on one axis.

import { createChart } from "./chart.js";
import { explain, spoken } from "./explain.js";
import { escape } from "./lettering.js";
import { runMarkup } from "./puzzle_panel.js";

/** mark: a name that is unique on the page. tell(words): to a screen reader. */
export function createRun(host, { mark, names, tell }) {
  let chart = null;

  function describe(item) {
    if (!item) return;
    const { title, lines } = explain(chart.specs[item.panel], item, names);
    const parts = [`<b>${escape(title)}</b>`, ...lines.map(escape)];
    host.querySelector(".ge-explain").innerHTML = parts.map((line) => `<p>${line}</p>`).join("");
  }

  function focus(item) {
    describe(item);
    if (item) tell(spoken(chart.specs[item.panel], item, names));
  }

  function end() {
    chart?.destroy();
    chart = null;
    host.hidden = true;
    host.innerHTML = "";
  }

  function show(run) {
    end();
    host.hidden = false;
    host.innerHTML = runMarkup(run);
    chart = createChart(host.querySelector(".ge-chart"), { mark, names, on: { hover: describe, focus } });
    chart.set({ memory: false, arrows: false });
    chart.show(run.specs);
  }

  return { show, end };
}
