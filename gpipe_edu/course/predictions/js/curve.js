// A curve to draw: a point above each place on the axis, put there by dragging across, or one by one with the arrow keys.
import { draw, figure, make, near, ours, place } from "./parts.js";

const PLOT = { left: 70, right: 620, top: 12, bottom: 232, step: 0.05 };

export function curve(asked, _name, changed) {
  const x = (i) => PLOT.left + 30 + (i * (PLOT.right - PLOT.left - 60)) / (asked.at.length - 1);
  const y = (value) => PLOT.bottom - value * (PLOT.bottom - PLOT.top);
  const picture = draw("svg", { viewBox: `0 0 640 ${PLOT.bottom + 48}`, class: "ge-prediction-picture ge-prediction-drag" });
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    picture.append(
      draw("line", { x1: PLOT.left, x2: PLOT.right, y1: y(value), y2: y(value), class: "ge-prediction-lane" }),
      draw("text", { x: PLOT.left - 8, y: y(value) + 5, "text-anchor": "end" }, figure(value)),
    );
  }
  asked.at.forEach((each, i) => picture.append(draw("text", { x: x(i), y: PLOT.bottom + 18, "text-anchor": "middle" }, figure(each))));
  picture.append(
    draw("text", { x: (PLOT.left + PLOT.right) / 2, y: PLOT.bottom + 40, "text-anchor": "middle" }, asked.across),
    draw("text", { x: 16, y: (PLOT.top + PLOT.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 16 ${(PLOT.top + PLOT.bottom) / 2})` }, asked.up),
  );
  const truth = draw("polyline", { class: "ge-prediction-truth" });
  const line = draw("polyline", { class: "ge-prediction-mine" });
  const values = asked.at.map(() => undefined);
  const points = asked.at.map((each, i) =>
    draw("circle", { ...ours, r: 7, cx: x(i), tabindex: 0, role: "slider", class: "ge-prediction-point", "aria-label": `${asked.up} at ${asked.across} = ${figure(each)}`, "aria-valuemin": 0, "aria-valuemax": 1 }),
  );
  picture.append(truth, line, ...points);
  let settled = false;
  const show = () => {
    points.forEach((point, i) => {
      const open = values[i] === undefined;
      point.setAttribute("cy", y(open ? 0.5 : values[i]));
      point.classList.toggle("ge-prediction-open", open);
      point.setAttribute("aria-valuenow", open ? 0.5 : values[i]);
      point.setAttribute("aria-valuetext", open ? "not drawn yet" : figure(values[i]));
    });
    line.setAttribute("points", values.flatMap((value, i) => (value === undefined ? [] : [`${x(i)},${y(value)}`])).join(" "));
  };
  const set = (i, value) => {
    if (settled) return;
    values[i] = near(0, Math.round(value * 100) / 100, 1);
    show();
    changed();
  };
  const reach = (event) => {
    const at = place(picture, event);
    const i = near(0, Math.round((at.x - x(0)) / (x(1) - x(0))), asked.at.length - 1);
    set(i, (PLOT.bottom - at.y) / (PLOT.bottom - PLOT.top));
  };
  picture.addEventListener("pointerdown", (event) => {
    picture.setPointerCapture(event.pointerId);
    reach(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (picture.hasPointerCapture(event.pointerId)) reach(event);
  });
  points.forEach((point, i) =>
    point.addEventListener("keydown", (event) => {
      const from = values[i] ?? 0.5;
      const to = { ArrowUp: from + PLOT.step, ArrowDown: from - PLOT.step, Home: 0, End: 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      set(i, to);
    }),
  );
  show();
  return {
    node: make("div", {}, picture),
    invitation: "Draw from left to right, then commit. By keyboard: Tab to a point, arrow keys up and down.",
    value: () => (values.includes(undefined) ? undefined : values),
    reveal(chosen, solution) {
      settled = true;
      chosen.forEach((value, i) => (values[i] = value));
      points.forEach((point) => point.setAttribute("aria-disabled", "true"));
      show();
      truth.setAttribute("points", solution.map((value, i) => `${x(i)},${y(value)}`).join(" "));
      const last = solution.length - 1;
      const high = chosen[last] > solution[last];
      picture.append(
        draw("text", { x: x(last) + 10, y: y(solution[last]) + (high ? 16 : -6), class: "ge-prediction-truth" }, "it is"),
        draw("text", { x: x(last) + 10, y: y(chosen[last]) + (high ? -6 : 16), class: "ge-prediction-mine" }, "you"),
      );
    },
  };
}
