// The ops that are left to place, a row of buttons per device. One stop for Tab; arrow keys lead from button to button.

import { KEPT } from "../../../view/js/kernel_notices.js";
import { meaning } from "../../../view/js/keys.js";
import { escape } from "../../../view/js/lettering.js";
import { nearestButton, opLabel, opWords, rove } from "./puzzle_moves.js";

const MANY = 24; // ops left on a device; above, only the first few of each kind and the last are shown
const MANY_KINDS = 4; // above, only the first and the last

/** on: {place(device, op), drag(event, device, op)}. */
export function createPalette(host, { names, on }) {
  const look = { ready: [], marked: false, hint: null };
  let left = [];
  let drawn = []; // the markup of every row
  let here = { device: 0, at: 0 };

  const buttons = (device) => [...host.querySelectorAll(`[data-device="${device}"] [data-op]`)];
  const counts = () => left.map((_, device) => buttons(device).length);

  function show(next, ready) {
    left = next;
    look.ready = ready;
    look.hint = null;
    redraw();
  }

  /** A move changes the row of one device; rebuilding hundreds of buttons would take the browser longer than all else. */
  function redraw() {
    const several = left.some((groups) => new Set(groups.map(({ stage }) => stage)).size > 1);
    const rows = left.map((groups, device) => row(groups, device, several));
    if (host.children.length !== rows.length) host.innerHTML = "<div></div>".repeat(rows.length);
    rows.forEach((markup, device) => markup !== drawn[device] && (host.children[device].outerHTML = markup));
    drawn = rows;
    const reached = nearestButton(counts(), here);
    if (reached) point(reached);
  }

  function row(groups, device, several) {
    const many = groups.reduce((sum, { ops, more }) => sum + ops.length + more, 0) > MANY;
    const first = !many ? MANY : groups.length > MANY_KINDS ? 1 : 3;
    const parts = groups.map(({ ops, more, kind }) => {
      const drawn = ops.map((op) => button(op, kind, device, several));
      const rest = ops.length - first - 1 + more;
      if (rest < 1) return `<span class="gp-kind">${drawn.join("")}</span>`;
      const between = `<span class="ge-name" title="${rest} more between them; type their names">…</span>`;
      return `<span class="gp-kind">${drawn.slice(0, first).join("")}${between}${drawn.at(-1)}</span>`;
    });
    const inside = parts.join("") || `<span class="ge-name">everything is placed</span>`;
    return `<div class="gp-row" role="group" aria-label="Ops for device ${device}" data-device="${device}"><span class="gp-device">device ${device}</span><div class="gp-kinds">${inside}</div></div>`;
  }

  function button(op, kind, device, several) {
    const ready = look.marked && look.ready[device].includes(op);
    const hinted = look.hint?.op === op;
    const label = opLabel(op, several);
    const words = `${label} on device ${device}: ${opWords(op, names)}${ready ? ", ready" : ""}`;
    const look_ = `gp-op gp-${kind}${ready ? " gp-ready" : ""}${hinted ? " gp-hint" : ""}`;
    return `<button type="button" class="${look_}" data-op="${op}" tabindex="-1" aria-label="${escape(words)}" title="${escape(words)}" ${KEPT}>${label}</button>`;
  }

  /** Makes one button the stop for Tab. */
  function point(place) {
    here = place;
    host.querySelector('[data-op][tabindex="0"]')?.setAttribute("tabindex", "-1");
    const target = buttons(place.device)[place.at];
    target?.setAttribute("tabindex", "0");
    return target;
  }

  const placeOf = (button) => {
    const device = Number(button.closest("[data-device]").dataset.device);
    return { device, at: buttons(device).indexOf(button) };
  };

  host.addEventListener("click", (event) => {
    const button = event.target.closest("[data-op]");
    if (!button) return;
    point(placeOf(button));
    on.place(here.device, button.dataset.op);
  });
  host.addEventListener("pointerdown", (event) => {
    const button = event.target.closest("[data-op]");
    if (button && !event.button) on.drag(event, placeOf(button).device, button.dataset.op);
  });
  host.addEventListener("focusin", (event) => {
    const button = event.target.closest("[data-op]");
    if (button) point(placeOf(button));
  });
  host.addEventListener("keydown", (event) => {
    const button = event.target.closest("[data-op]");
    const act = meaning("ops", event);
    if (!button || !act) return;
    event.preventDefault();
    event.stopPropagation();
    point(rove(counts(), placeOf(button), act)).focus();
  });

  return {
    show,
    set(options) {
      Object.assign(look, options);
      const held = host.contains(document.activeElement);
      redraw();
      if (held) this.focus();
    },
    /** Gives the focus to the button that stands where the last one stood; false if there is none. */
    focus() {
      const reached = nearestButton(counts(), here);
      if (!reached) return false;
      point(reached).focus();
      return true;
    },
  };
}
