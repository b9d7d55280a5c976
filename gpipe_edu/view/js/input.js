// Pointer and keys on the chart: they only find out what is meant. What comes of it is the chart's business.

import { around, meaning } from "./keys.js";

/** Follows pointer and keys in `panels` and `axis`. chart: what can be asked and done; chart.on: the owner's callbacks. */
export function listen(panels, axis, chart) {
  const lanesOf = (event) => event.target.closest?.(".ge-lanes");

  panels.addEventListener("pointermove", (event) => chart.hover(chart.itemUnder(event)));
  panels.addEventListener("pointerleave", () => chart.hover(null));
  panels.addEventListener("pointerdown", (event) => {
    const item = chart.itemUnder(event);
    if (item) {
      chart.focus(item);
      chart.toggle(item);
    } else if (lanesOf(event)) dragTime(event, lanesOf(event));
  });
  axis.addEventListener("pointerdown", (event) => dragTime(event, axis));

  function dragTime(event, element) {
    const follow = (move) => chart.on.cursor?.(chart.timeUnder(move, element));
    const stop = () => element.removeEventListener("pointermove", follow);
    element.setPointerCapture(event.pointerId);
    element.addEventListener("pointermove", follow);
    element.addEventListener("pointerup", stop, { once: true });
    element.addEventListener("pointercancel", stop, { once: true });
    follow(event);
  }

  panels.addEventListener("focusin", (event) => {
    if (event.target.matches(".ge-lanes:focus-visible") && !chart.current()) chart.focus(chart.first());
  });

  const acts = {
    toggle: () => chart.current() && chart.toggle(chart.current()),
    release: () => chart.release(),
    nearer: () => chart.zoomBy(0.5),
    further: () => chart.zoomBy(2),
    whole: () => chart.whole(),
    play: chart.on.play,
  };
  panels.addEventListener("keydown", (event) => {
    if (!lanesOf(event)) return;
    const name = meaning("chart", event);
    if (around(name)) chart.focus(chart.current() ? chart.beside(name) : chart.first());
    else if (acts[name]) acts[name]();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const wheel = (event) => {
    if (!event.ctrlKey || !lanesOf(event)) return;
    event.preventDefault();
    chart.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, chart.timeUnder(event, lanesOf(event)));
  };
  panels.addEventListener("wheel", wheel, { passive: false }); // a passive listener cannot keep the page from zooming
}
