// The chart in a page: draws specs, follows pointer and keys, and tells its owner by callbacks. It knows nothing of
// controls, kernels or puzzles. on: {hover, focus, select, cursor, zoom, play}, each optional.

import { amount, px } from "./lettering.js";
import { endOf, frameOf, isNarrow, panelOf, stripUnit, tallest, timeAt, xOf } from "./layout.js";
import { draw } from "./draw.js";
import { itemBox, overlay } from "./overlay.js";
import { again, deviceOfItem, firstItem, heldAt, itemAt, neighbour, onPanel, same } from "./navigation.js";
import { spoken } from "./explain.js";
import { listen } from "./input.js";
import { axisMarkup, figureMarkup, nowMarkup, panelMarkup, titleMarkup } from "./panel.js";

const LEAST_WIDTH = 290;

/** A chart inside `host`. mark: a name that is unique on the page. names: what the letters of ops stand for. */
export function createChart(host, { mark, names, on = {} }) {
  host.innerHTML = `<div class="ge-panels"></div><svg class="ge-axis" height="30" aria-hidden="true"></svg>`;
  const [panelsHost, axis] = host.children;
  const look = { memory: true, critical: false, arrows: true, from: 0, to: null, cursor: 0, veil: false };
  let specs = [];
  let panels = [];
  let parts = []; // per panel, the elements that change
  let width = 0;
  let [hovered, focused, selected] = [null, null, null];

  function show(next) {
    const kept = [again(focused, specs, next), again(selected, specs, next)];
    const atEnd = !specs.length || look.cursor >= longest() || !next.length;
    specs = next;
    [hovered, focused, selected] = [null, ...kept];
    if (look.to !== null) on.zoom?.(0, null);
    [look.from, look.to] = [0, null];
    look.cursor = atEnd ? longest() : Math.min(look.cursor, longest());
    if (parts.length !== specs.length) build();
    redraw();
  }

  function longest() {
    return Math.max(...specs.map(endOf));
  }

  /** The frame of every panel; what is in it is drawn by `redraw`. */
  function build() {
    const held = host.contains(document.activeElement) && document.activeElement.closest(".ge-lanes");
    panelsHost.innerHTML = specs
      .map((_, number) => panelMarkup(number))
      .join("");
    parts = [...panelsHost.querySelectorAll(".ge-panel")].map((panel) => {
      const part = (name) => panel.querySelector(`.ge-${name}`);
      const lanes = part("lanes");
      return {
        lanes,
        panel,
        ...Object.fromEntries(["title", "figures", "base", "over", "now", "veil", "cursor"].map((n) => [n, part(n)])),
      };
    });
    if (held) parts[0].lanes.focus();
  }

  function redraw() {
    if (!specs.length) return;
    width = Math.max(LEAST_WIDTH, Math.floor(host.clientWidth) || 960);
    const frame = frameOf(specs, width, look);
    const most = tallest(specs);
    panels = specs.map((spec) => panelOf(spec, frame, look.memory, most));
    panels.forEach((panel, number) => {
      const { spec, height } = panel;
      const part = parts[number];
      part.title.innerHTML = titleMarkup(spec.heading, specs[number - 1]?.heading);
      part.figures.innerHTML = spec.figures.map(figureMarkup).join("");
      part.lanes.setAttribute("aria-label", [...spec.heading, ...spec.figures].join(", "));
      part.lanes.style.height = `${height}px`;
      part.lanes.style.width = `${width}px`;
      for (const svg of [part.base, part.over, part.now]) {
        svg.setAttribute("width", width);
        svg.setAttribute("height", height);
      }
      part.base.innerHTML = draw(panel, `${mark}-${number}`);
      part.now.innerHTML = nowMarkup(panel);
      part.dots = [...part.now.querySelectorAll("circle")];
      part.levels = [...part.now.querySelectorAll("text")];
      part.cursor.style.height = `${height - 17}px`;
      part.veil.style.height = `${height}px`;
    });
    axis.setAttribute("width", width);
    axis.innerHTML = axisMarkup(frame, specs[0].shown);
    drawOverlay();
    placeCursor();
  }

  function drawOverlay() {
    const active = hovered ?? focused;
    panels.forEach((panel, number) => {
      const here = (item) => (item && item.panel === number ? item : null);
      const at = here(active);
      const state = { active: at, selected: here(selected), critical: look.critical, arrows: look.arrows };
      state.focused = !hovered && Boolean(focused);
      const words = at ? spoken(panel.spec, at, names) : "";
      parts[number].over.innerHTML = overlay(panel, state, `${mark}-${number}`, words);
      const name = `focus-${mark}-${number}`;
      if (state.focused && at) parts[number].lanes.setAttribute("aria-activedescendant", name);
      else parts[number].lanes.removeAttribute("aria-activedescendant");
    });
  }

  /** Only this runs while time moves: two elements shift, and the memory in use is written anew. */
  function placeCursor() {
    const time = look.cursor;
    panels.forEach((panel, number) => {
      const { frame, spec } = panel;
      const part = parts[number];
      const x = Math.min(frame.right, Math.max(frame.left, xOf(frame, time)));
      part.cursor.style.transform = `translateX(${px(x)}px)`;
      part.cursor.hidden = time < frame.from || time > frame.to;
      part.veil.hidden = !look.veil;
      part.veil.style.transform = `translateX(${px(x)}px)`;
      part.veil.style.width = `${px(Math.max(0, frame.right - x))}px`;
      if (!panel.memory) return;
      const unit = stripUnit(panel);
      panel.lanes.forEach((lane, device) => {
        const held = heldAt(spec, device, time);
        part.dots[device].setAttribute("cx", px(x));
        part.dots[device].setAttribute("cy", px(lane.strip + 26 - held * unit));
        const words = isNarrow(frame) ? amount(held) : `now ${amount(held)}`;
        if (part.levels[device].textContent !== words) part.levels[device].textContent = words;
      });
    });
    const stamp = axis.querySelector(".ge-stamp");
    if (stamp && panels.length) {
      const { frame } = panels[0];
      stamp.setAttribute("transform", `translate(${px(Math.min(frame.right, Math.max(frame.left, xOf(frame, time))))} 0)`);
    }
  }

  function moveCursor(time, veil = look.veil) {
    look.cursor = Math.min(longest(), Math.max(0, time));
    look.veil = veil;
    const { from, to } = panels[0].frame;
    const within = look.cursor >= from && look.cursor <= to;
    if (look.to !== null && !within) zoom(look.cursor - (to - from) / 2, look.cursor + (to - from) / 2);
    else placeCursor();
  }

  function zoom(from, to) {
    const span = Math.min(longest(), to - from);
    const start = Math.min(longest() - span, Math.max(0, from));
    const [first, last] = span >= longest() ? [0, null] : [start, start + span];
    if (first === look.from && last === look.to) return;
    [look.from, look.to] = [first, last];
    redraw();
    on.zoom?.(look.from, look.to);
  }

  /** Nearer (factor below 1) or further, around `centre`, but never less than half a thousandth of the whole. */
  function zoomBy(factor, centre = look.cursor) {
    const { from, to } = panels[0].frame;
    const span = Math.max(longest() / 2000, (to - from) * factor);
    const share = to > from ? Math.min(1, Math.max(0, (centre - from) / (to - from))) : 0;
    zoom(centre - share * span, centre + (1 - share) * span);
  }

  function itemUnder(event) {
    const lanes = event.target.closest?.(".ge-lanes");
    if (!lanes) return null;
    const number = Number(lanes.dataset.panel);
    const box = lanes.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const panel = panels[number];
    const { frame } = panel;
    const lane = panel.lanes.find((one) => y >= one.y && y < one.y + one.height);
    if (!lane || x < frame.left || x > frame.right) return null;
    const found = itemAt(panel.spec, lane.device, timeAt(frame, x));
    return found && onPanel(number, found);
  }

  function hover(item) {
    if (item === hovered || same(item, hovered)) return;
    hovered = item;
    drawOverlay();
    on.hover?.(item ?? focused);
  }

  function focus(item) {
    focused = item;
    hovered = null;
    if (item) {
      parts.forEach(({ lanes }, number) => lanes.setAttribute("tabindex", number === item.panel ? 0 : -1));
      const { lanes } = parts[item.panel];
      if (host.contains(document.activeElement) && document.activeElement !== lanes) lanes.focus();
      reveal(item);
    }
    drawOverlay();
    on.focus?.(item);
  }

  /** Scrolls and shifts so that what has the focus can be seen. */
  function reveal(item) {
    const panel = panels[item.panel];
    const list = item.type === "op" ? panel.spec : panel.spec.idle;
    const { from, to } = panel.frame;
    if (list.stop[item.index] < from || list.start[item.index] > to) {
      zoom(list.start[item.index] - (to - from) / 2, list.start[item.index] + (to - from) / 2);
    }
    const box = itemBox(panel, item);
    const scroll = parts[item.panel].lanes.parentElement;
    if (box.y < scroll.scrollTop) scroll.scrollTop = box.y - 8;
    const below = box.y + box.height + 34 - scroll.scrollTop - scroll.clientHeight;
    if (below > 0) scroll.scrollTop += below;
  }

  function select(item) {
    selected = item;
    drawOverlay();
    on.select?.(item);
  }

  listen(panelsHost, axis, {
    itemUnder,
    timeUnder: (event, element) => timeAt(panels[0].frame, event.clientX - element.getBoundingClientRect().left),
    current: () => focused,
    first: () => selected ?? firstItem(specs),
    beside: (act) => neighbour(specs, focused, act),
    whole: () => zoom(0, longest()),
    hover,
    focus,
    toggle: (item) => select(same(item, selected) ? null : item),
    release() {
      select(null);
      focus(null);
    },
    zoomBy,
    on,
  });
  const watcher = new ResizeObserver(() => {
    if (Math.max(LEAST_WIDTH, Math.floor(host.clientWidth)) !== width) redraw();
  });
  watcher.observe(host);

  return {
    show,
    select,
    focus,
    zoom,
    zoomBy,
    moveCursor,
    set(options) {
      Object.assign(look, options);
      redraw();
    },
    get cursor() {
      return look.cursor;
    },
    get end() {
      return specs.length ? longest() : 0;
    },
    get specs() {
      return specs;
    },
    get selected() {
      return selected;
    },
    device: (item) => deviceOfItem(specs[item.panel], item),
    destroy: () => watcher.disconnect(),
  };
}
