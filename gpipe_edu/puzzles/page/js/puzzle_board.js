// The board in a page: boxes that can be picked up, by pointer and by keys. What a move means, Python says.

import { KEPT } from "../../../view/js/kernel_notices.js";
import { around, meaning, told } from "../../../view/js/keys.js";
import { draw } from "../../../view/js/draw.js";
import { frameOf, panelOf, tallest } from "../../../view/js/layout.js";
import { showTime } from "../../../view/js/lettering.js";
import { axisMarkup } from "../../../view/js/panel.js";
import { ghostsOf, invitation, laneBoxes, passing, standing } from "./puzzle_draw.js";
import { gapAt, landing, opLabel, opParts, opWords, stays, walk, within } from "./puzzle_moves.js";

const LEAST_BOARD = 290;
const SLACK = 5; // pixels a finger may slip before a click becomes a drag

/** on: {place(device, op, at or none), move(from, to), remove(place), say(words), tell(words)}. */
export function createBoard(host, { mark, names, on }) {
  host.innerHTML =
    `<div class="ge-lanes" tabindex="0" role="application" aria-roledescription="schedule board" ${KEPT}>` +
    `<svg class="ge-base" aria-hidden="true"></svg><svg class="ge-over"></svg></div>` +
    `<svg class="ge-axis" height="30" aria-hidden="true"></svg>`;
  const [lanes, axis] = host.children;
  const [base, over] = lanes.children;
  const look = { ghosts: false, hint: null, place: null, focused: false, carried: null, target: null };
  let board = null;
  let rows = [];
  let wrong = new Set();
  let panel = null;
  let width = 0;

  function show(next, nextRows, problems) {
    board = next;
    rows = nextRows;
    wrong = new Set(problems.map(({ op }) => op).filter(Boolean));
    [look.carried, look.target, look.hint] = [null, null, null];
    if (look.place) look.place = within(rows.map((row) => row.length), look.place);
    redraw();
  }

  function redraw() {
    if (!board) return;
    width = Math.max(LEAST_BOARD, Math.floor(host.clientWidth) || 960);
    const { spec } = board;
    const memory = Boolean(board.cap); // without a cap, its lanes say nothing that matters
    const frame = frameOf([spec], width, { memory });
    panel = panelOf(spec, frame, memory, Math.max(1, tallest([spec]), ...(board.cap ?? [])));
    lanes.style.height = `${panel.height}px`;
    lanes.style.width = `${width}px`;
    for (const svg of [base, over]) {
      svg.setAttribute("width", width);
      svg.setAttribute("height", panel.height);
    }
    axis.setAttribute("width", width);
    axis.innerHTML = axisMarkup(frame, spec.shown);
    const placed = rows.reduce((sum, row) => sum + row.length, 0);
    base.innerHTML = draw(panel, mark) + standing(panel, board, wrong) + (placed ? "" : invitation(panel, board));
    lanes.setAttribute(
      "aria-label",
      `Board: ${placed} op${placed === 1 ? "" : "s"} placed, ${spec.figures.join(", ")}. ${told("board").join("; ")}.`,
    );
    drawOver();
  }

  function drawOver() {
    const words = look.place ? wordsAt(look.place) : "";
    over.innerHTML = passing(panel, board, look, mark, words);
    if (look.focused && look.place && !look.target) lanes.setAttribute("aria-activedescendant", `focus-${mark}`);
    else lanes.removeAttribute("aria-activedescendant");
  }

  /** What stands at a place, in words. */
  function wordsAt({ device, at }) {
    const op = rows[device][at];
    if (!op) return rows[device].length ? `behind ${rows[device].at(-1)} on device ${device}` : `device ${device}, empty`;
    const { spec } = board;
    const index = spec.first[device] + at;
    const runs = index < spec.first[device + 1];
    const when = runs ? `from ${showTime(spec.start[index], spec.shown)} to ${showTime(spec.stop[index], spec.shown)}` : "waiting";
    return `${op} on device ${device}, ${when}: ${opWords(op, names)}`;
  }

  function targetWords({ device, at }) {
    const row = rows[device];
    return at < row.length ? `before ${row[at]} on device ${device}` : `behind everything on device ${device}`;
  }

  function go(place, quiet = false) {
    look.place = place;
    drawOver();
    if (!quiet && place) on.say(wordsAt(place));
    on.tell(place && rows[place.device][place.at] ? wordsAt(place) : "");
  }

  function pickUp(place) {
    [look.carried, look.target] = [place, place];
    drawOver();
    on.say(`${rows[place.device][place.at]} picked up. Arrow keys choose where to, Enter puts it down, Escape leaves it.`);
  }

  function putDown() {
    const { carried, target } = look;
    [look.carried, look.target] = [null, null];
    drawOver();
    if (!carried || !target || stays(carried, target)) return on.say("left where it was");
    const to = { device: target.device, at: landing(carried, target) };
    look.place = to;
    on.move(carried, to);
  }

  const intervals = () =>
    rows.map((row, device) => {
      const { spec } = board;
      const waits = board.stuck.filter((one) => one.device === device);
      const runs = row.length - waits.length;
      return row.map((_, at) => {
        const index = spec.first[device] + at;
        return at < runs ? { start: spec.start[index], end: spec.stop[index] } : waits[at - runs];
      });
    });

  const acts = {
    carry() {
      if (look.carried) return putDown();
      if (look.place && rows[look.place.device][look.place.at]) pickUp(look.place);
    },
    leave() {
      if (look.carried) on.say("left where it was");
      [look.carried, look.target] = [null, null];
      drawOver();
    },
    remove() {
      if (look.place && rows[look.place.device][look.place.at]) on.remove(look.place);
    },
    removeBefore() {
      if (!look.place?.at) return;
      look.place = { ...look.place, at: look.place.at - 1 };
      on.remove(look.place);
    },
  };

  lanes.addEventListener("keydown", (event) => {
    const act = meaning("board", event);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    if (!around(act)) return acts[act]();
    if (!look.carried) return go(walk(intervals(), look.place ?? { device: 0, at: 0 }, act));
    look.target = walk(intervals(), look.target, act);
    drawOver();
    on.say(targetWords(look.target));
  });
  lanes.addEventListener("focus", () => {
    look.focused = true;
    go(look.place ?? { device: 0, at: 0 }, !lanes.matches(":focus-visible"));
  });
  lanes.addEventListener("blur", () => {
    look.focused = false;
    if (look.carried && !dragging) acts.leave();
    drawOver();
  });

  let dragging = false;

  function point(event) {
    const box = lanes.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function laneAt(y) {
    return panel.lanes.find((lane) => y >= lane.y - 4 && y < (lane.strip ?? lane.y + lane.height) + 26);
  }

  /** The place under the pointer, null outside of the lanes. */
  function gapUnder(event) {
    const [x, y] = point(event);
    const lane = laneAt(y);
    if (!lane || x < 0 || x > width) return null;
    return { device: lane.device, at: gapAt(laneBoxes(panel, board.stuck, lane.device), x) };
  }

  const inside = (boxes, [x, y]) =>
    boxes.findIndex((box) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height);

  lanes.addEventListener("pointerdown", (event) => {
    if (event.button || !board) return;
    const where = point(event);
    const ghosts = look.ghosts ? ghostsOf(panel, board.ghosts) : [];
    const ghost = ghosts[inside(ghosts, where)];
    if (ghost) return on.place(ghost.device, ghost.op);
    const lane = laneAt(where[1]);
    if (!lane) return;
    const at = inside(laneBoxes(panel, board.stuck, lane.device), where);
    const place = { device: lane.device, at: at < 0 ? rows[lane.device].length : at };
    look.focused = true;
    lanes.focus();
    go(place, true);
    if (at >= 0) drag(event, (gap) => gap && !stays(place, gap) && on.move(place, { device: gap.device, at: landing(place, gap) }), rows[place.device][at], place);
  });

  /** The op under the pointer while it is dragged, over other elements. */
  function flying(op, { clientX, clientY }) {
    const { kind } = opParts(op);
    const style = getComputedStyle(host);
    const element = host.ownerDocument.body.appendChild(host.ownerDocument.createElement("div"));
    element.textContent = opLabel(op, board.spec.stages.some((stages) => stages.length > 1));
    element.className = "gp-flying";
    element.style.background = style.getPropertyValue(`--ge-${kind === "C" ? "B" : kind}`);
    element.style.color = style.getPropertyValue(`--ge-${kind === "C" ? "B" : kind}-text`);
    const move = (event) => (element.style.transform = `translate(${event.clientX + 10}px, ${event.clientY + 8}px)`);
    move({ clientX, clientY });
    return { move, land: () => element.remove() };
  }

  /**
   * Follows the pointer until it is let go. done(gap): where to, null outside. carried: the place of what is dragged, none
   * for an op that is not on the board yet.
   */
  function drag(start, done, op, carried = null) {
    let ghost = null;
    const follow = (event) => {
      if (!dragging && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < SLACK) return;
      dragging = true;
      ghost ??= flying(op, event);
      ghost.move(event);
      [look.carried, look.target] = [carried, gapUnder(event)];
      drawOver();
    };
    const end = (event) => {
      for (const [name, listener] of listeners) removeEventListener(name, listener, true);
      const moved = dragging;
      ghost?.land();
      [dragging, look.carried, look.target] = [false, null, null];
      drawOver();
      if (moved) done(event.type === "pointerup" ? gapUnder(event) : null);
    };
    const escape = (event) => {
      if (meaning("board", event) !== "leave") return;
      event.stopPropagation();
      end(event);
    };
    const keep = (event) => event.preventDefault(); // else the text that the pointer crosses is selected
    const listeners = [["selectstart", keep], ["pointermove", follow], ["pointerup", end], ["pointercancel", end], ["keydown", escape]];
    for (const [name, listener] of listeners) addEventListener(name, listener, true);
  }

  const watcher = new ResizeObserver(() => {
    if (Math.max(LEAST_BOARD, Math.floor(host.clientWidth)) !== width) redraw();
  });
  watcher.observe(host);

  return {
    show,
    drag,
    go: (place) => go(within(rows.map((row) => row.length), place), true),
    focus: () => lanes.focus(),
    set(options) {
      Object.assign(look, options);
      if (panel) drawOver();
    },
    get place() {
      return look.place;
    },
    destroy: () => watcher.disconnect(),
  };
}
