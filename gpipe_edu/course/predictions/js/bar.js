// A chart of which the beginning is shown, and a bar to drag to where it ends.
import { draw, figure, make, near, ours, place } from "./parts.js";

const CHART = { left: 78, width: 640, lane: 30, top: 8 };

export function bar(asked, _name, changed) {
  const scale = (CHART.width - CHART.left - 40) / asked.longest;
  const bottom = CHART.top + CHART.lane * asked.devices + 6;
  const at = (time) => CHART.left + time * scale;
  const picture = draw("svg", { viewBox: `0 0 ${CHART.width} ${bottom + 52}`, class: "ge-prediction-picture ge-prediction-drag" });
  for (let k = 0; k < asked.devices; k++) {
    const y = CHART.top + CHART.lane * k;
    picture.append(
      draw("text", { x: CHART.left - 8, y: y + 17, "text-anchor": "end" }, `device ${k}`),
      draw("line", { x1: CHART.left, x2: at(asked.longest), y1: y + CHART.lane - 3, y2: y + CHART.lane - 3, class: "ge-prediction-lane" }),
    );
  }
  for (const box of asked.boxes) {
    const [fill, ink] = asked.paints[box.kind];
    const [x, width] = [at(box.start), (box.end - box.start) * scale];
    const y = CHART.top + CHART.lane * box.device;
    picture.append(draw("rect", { x, y, width, height: CHART.lane - 6, fill, class: "ge-prediction-op" }));
    if (width > 18) picture.append(draw("text", { x: x + width / 2, y: y + 17, "text-anchor": "middle", style: `fill: ${ink}` }, box.name));
  }
  picture.append(draw("line", { x1: CHART.left, x2: at(asked.longest), y1: bottom, y2: bottom, class: "ge-prediction-axis" }));
  for (const time of ticks(asked.longest)) {
    picture.append(
      draw("line", { x1: at(time), x2: at(time), y1: bottom, y2: bottom + 5, class: "ge-prediction-axis" }),
      draw("text", { x: at(time), y: bottom + 18, "text-anchor": "middle" }, figure(time)),
    );
  }
  const mine = rod("ge-prediction-mine", bottom);
  const truth = rod("ge-prediction-truth", bottom);
  truth.setAttribute("hidden", "");
  const handle = { ...ours, tabindex: 0, role: "slider", "aria-label": "where the step ends", "aria-valuemin": 0, "aria-valuemax": asked.longest };
  for (const [key, value] of Object.entries(handle)) mine.setAttribute(key, value);
  picture.append(truth, mine);

  let time = Math.max(0, ...asked.boxes.map((box) => box.end));
  let [moved, settled] = [false, false];
  const put = (node, to, words) => {
    node.setAttribute("transform", `translate(${at(to)} 0)`);
    node.lastChild.textContent = words;
  };
  const show = () => {
    put(mine, time, settled ? `you: ${figure(time)}` : moved ? `ends at ${figure(time)}` : "drag me");
    mine.setAttribute("aria-valuenow", time);
    mine.setAttribute("aria-valuetext", `ends at ${figure(time)}`);
  };
  const move = (to) => {
    if (settled) return;
    time = near(0, Math.round(to / asked.step) * asked.step, asked.longest);
    moved = true;
    show();
    changed();
  };
  picture.addEventListener("pointerdown", (event) => {
    picture.setPointerCapture(event.pointerId);
    move((place(picture, event).x - CHART.left) / scale);
  });
  picture.addEventListener("pointermove", (event) => {
    if (picture.hasPointerCapture(event.pointerId)) move((place(picture, event).x - CHART.left) / scale);
  });
  mine.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: time - asked.step, ArrowRight: time + asked.step, Home: 0, End: asked.longest }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });
  show();
  return {
    node: make("div", {}, picture),
    invitation: "Drag the bar, or focus it and press the arrow keys; then commit.",
    value: () => (moved ? time : undefined),
    reveal(chosen, solution) {
      [time, moved, settled] = [chosen, true, true];
      mine.setAttribute("aria-disabled", "true");
      show();
      truth.removeAttribute("hidden");
      put(truth, solution, `it is ${figure(solution)}`);
      // Two lines of words below the axis, so that near misses stay readable.
      truth.lastChild.setAttribute("y", bottom + 46);
      mine.toggleAttribute("hidden", chosen === solution);
    },
  };
}

function rod(name, bottom) {
  return draw(
    "g",
    { class: name },
    draw("rect", { x: -12, y: 0, width: 24, height: bottom, class: "ge-prediction-grip" }),
    draw("rect", { x: -2.5, y: 2, width: 5, height: bottom - 2 }),
    draw("text", { x: 0, y: bottom + 33, "text-anchor": "middle" }),
  );
}

function ticks(longest) {
  const rough = longest / 8;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  return Array.from({ length: Math.floor(longest / step + 1e-9) + 1 }, (_, i) => i * step);
}
