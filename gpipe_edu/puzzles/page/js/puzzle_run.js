// What came of running the board for real: measured against planned, on one axis.

import { createChart } from "../../../view/js/chart.js";
import { createAnswerLine } from "../../../view/js/answer_line.js";
import { explainMarkup, spoken } from "../../../view/js/explain.js";
import { runMarkup } from "./puzzle_panel.js";

/** mark: a name that is unique on the page. tell(words): to a screen reader. */
export function createRun(host, { mark, names, tell }) {
  let chart = null;
  let answer = null;

  function describe(item) {
    if (!item) return;
    answer.show(explainMarkup(chart.specs[item.panel], item, names));
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
    answer = createAnswerLine(host.querySelector(".ge-explain"));
    chart = createChart(host.querySelector(".ge-chart"), { mark, names, on: { hover: describe, focus } });
    chart.set({ memory: false, arrows: false });
    chart.show(run.specs);
  }

  return { show, end };
}
