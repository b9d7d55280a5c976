// The frame of a panel and what is written in it: markup only.

import { KEPT } from "./kernel_notices.js";
import { escape, px } from "./lettering.js";
import { axisOf } from "./layout.js";

/** Panel `number` of a chart, empty. Only the first can be reached by Tab: from there the arrow keys lead on. */
export function panelMarkup(number) {
  return (
    `<section class="ge-panel"><div class="ge-head"><h3 class="ge-title"></h3><ul class="ge-figures"></ul></div><div class="ge-scroll">` +
    `<div class="ge-lanes" tabindex="${number ? -1 : 0}" role="application" aria-roledescription="Gantt chart" ` +
    `data-panel="${number}" ${KEPT}><svg class="ge-base" aria-hidden="true"></svg><div class="ge-veil"></div>` +
    `<svg class="ge-over"></svg><svg class="ge-now" aria-hidden="true"></svg><div class="ge-cursor"></div>` +
    `</div></div></section>`
  );
}

/** The name large, the rest small; what the chart above also says is not repeated, so the figures fit beside it. */
export function titleMarkup([name, ...rest], above = []) {
  const small = rest.join(" · ");
  return escape(name) + (small === above.slice(1).join(" · ") ? "" : ` <small>${escape(small)}</small>`);
}

/** The axis under all panels, with the mark of the cursor. */
export function axisMarkup(frame, shown) {
  const { marks, unit, left, right } = axisOf(frame, shown);
  return (
    `<path class="ge-rule" d="M${left} 1H${right}${marks.map(({ x }) => `M${px(x)} 1v5`).join("")}"/>` +
    marks.map(({ x, text }) => `<text class="ge-tick" x="${px(x)}" y="20">${text}</text>`).join("") +
    `<text class="ge-tick ge-unit" x="${frame.width - frame.edge}" y="20">${unit}</text>` +
    `<g class="ge-stamp"><path d="M0 1l-5 7h10z"/></g>`
  );
}

/** A figure with its name and what explains it small, its number large, such as "bubble 27.3% (idle / total)". */
export function figureMarkup(words) {
  const [, name, value, why] = words.match(/^(\D+?) (\d.*?)( \(.*)?$/) ?? [null, "", words];
  return `<li><span>${escape(name)}</span> <b>${escape(value)}</b><span>${escape(why ?? "")}</span></li>`;
}

/** A dot on every memory strip and the level beside it, moved by the cursor. */
export function nowMarkup(panel) {
  if (!panel.memory) return "";
  const edge = panel.frame.width - panel.frame.edge;
  return panel.lanes
    .map(
      ({ strip }) =>
        `<circle class="ge-level" r="3.5"/><text class="ge-note" x="${edge}" y="${strip + 13}" dy=".36em" ` +
        `text-anchor="end"></text>`,
    )
    .join("");
}
