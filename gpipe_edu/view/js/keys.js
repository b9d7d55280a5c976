// Every key of the explorer and the puzzle, once: what it means where, and how that is said; also in docs/keys.md.

import { isRun } from "./pass_on.js";

const AROUND = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last" };

/** Place by place, rows of [{key: act}, what it does]. */
export const KEYS = {
  chart: [
    [AROUND, "go from op to op along a device, to another device, to its first or last op"],
    [{ Enter: "toggle" }, "select or deselect the op"],
    [{ Escape: "release" }, "deselect the op, and take the focus off it"],
    [{ "+": "nearer", "=": "nearer" }, "zoom in"],
    [{ "-": "further" }, "zoom out"],
    [{ 0: "whole" }, "show the whole step"],
    [{ " ": "play" }, "play or pause"],
  ],
  time: [
    [{ ArrowLeft: "back", ArrowDown: "back" }, "go to the previous event"],
    [{ ArrowRight: "next", ArrowUp: "next" }, "go to the next event"],
    [{ Home: "first", End: "last" }, "go to the start or to the end"],
    [{ " ": "play" }, "play or pause"],
  ],
  board: [
    [AROUND, "go from op to op along a device, to another device, to its start or end"],
    [{ Enter: "carry" }, "pick the op up, or put it down"],
    [{ Escape: "leave" }, "cancel the move, so the op stays where it was"],
    [{ Delete: "remove" }, "remove the op"],
    [{ Backspace: "removeBefore" }, "remove the op before the one in focus"],
  ],
  ops: [[AROUND, "go from op to op of a device, to another device, to its first or last op"]],
  puzzle: [
    [{ "Ctrl+Z": "undo" }, "undo the last move"],
    [{ "Ctrl+Y": "redo", "Ctrl+Shift+Z": "redo" }, "redo the move that was undone"],
  ],
};

/** Whether an act moves the focus around, so that `neighbour`, `walk` and `rove` know it. */
export const around = (act) => Object.values(AROUND).includes(act);

/** What a key means at a place, "" for nothing of ours. */
export function meaning(place, event) {
  const { key, ctrlKey, altKey, metaKey, shiftKey } = event;
  if (altKey || isRun(event)) return "";
  const pressed = ctrlKey || metaKey ? `Ctrl+${shiftKey ? "Shift+" : ""}${key.toUpperCase()}` : key;
  return KEYS[place].find(([acts]) => Object.hasOwn(acts, pressed))?.[0][pressed] ?? "";
}

/** The keys of a row, as a reader is told them. */
export function keyNames(acts) {
  return Object.keys(acts).map((key) => (key === " " ? "Space" : key.replace("Arrow", "")));
}

/** A line for each row of a place. */
export function told(place) {
  return KEYS[place].map(([acts, does]) => `${keyNames(acts).join(", ")}: ${does}`);
}
