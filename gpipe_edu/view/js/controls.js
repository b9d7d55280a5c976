// The explorer's controls: they only say what is wanted. Python says what is allowed, and what comes of it.

import { KEPT } from "./kernel_notices.js";
import { escape } from "./lettering.js";

/** Where sliders end, unless a setting is beyond; the boxes beside them take what settings.py's MOST allows. */
const REACH = { K: 16, M: 64 };
const COSTS = { F: ["F", "Time of F forward"], B: ["B", "Time of B backward"], R: ["R", "Time of R recompute"], send: ["latency", "Time from the end of an op to its use on another device"], link: ["link", "Time for which a message keeps its link busy"] };

function options(entries, chosen) {
  return entries
    .map(([value, name]) => `<option value="${escape(value)}" ${value === chosen ? "selected" : ""}>${escape(name)}</option>`)
    .join("");
}

function select(name, label, entries, chosen) {
  return `<label class="ge-field">${label} <select data-name="${name}" ${KEPT}>${options(entries, chosen)}</select></label>`;
}

/** A slider for the hand, and a box for exact numbers; the slider covers the sizes at which a chart can be read. */
function count(name, label, value, slider, most) {
  return (
    `<div class="ge-field ge-count"><span>${label}</span>` +
    `<input type="range" data-name="${name}" min="1" max="${slider}" value="${value}" aria-label="${label}" ${KEPT}>` +
    `<input type="number" data-name="${name}" min="1" max="${most}" value="${value}" aria-label="${label}, exactly" ${KEPT}></div>`
  );
}

function number(name, label, value, most, { index = "", words = label, least = 0, step = 0.5 } = {}) {
  return (
    `<label class="ge-field" title="${words}">${label} <input type="number" data-name="${name}" data-index="${index}" min="${least}" ` +
    `max="${most}" step="${step}" value="${value}" aria-label="${words}" ${KEPT}></label>`
  );
}

/** A choice from a list of sizes, for pages whose charts were computed in advance. */
function stops(name, label, values, chosen) {
  return (
    `<label class="ge-field ge-count">${label} <input type="range" data-stops="${name}" min="0" max="${values.length - 1}" ` +
    `step="1" value="${values.indexOf(chosen)}" aria-valuetext="${chosen}" ${KEPT}><output>${chosen}</output></label>`
  );
}

/** The settings with one changed. Text that is not a number is passed on: Python says what is wrong with it. */
export function changed(settings, name, value, index = "") {
  if (index !== "") {
    const factors = Array.from({ length: Math.max(Number(index) + 1, settings.factors.length) }, (_, k) => settings.factors[k] ?? 1);
    factors[Number(index)] = value;
    return { ...settings, factors };
  }
  return { ...settings, [name]: value };
}

/** How many stages the settings have. */
export function stagesOf(settings, { schedules }) {
  const { takes_V, stages } = schedules[settings.schedule];
  return settings.K * (takes_V ? settings.V : stages);
}

/** The values one key press away from the one that `input` has. */
export function besides({ type, value, min, max, step, options, selectedIndex }) {
  if (type === "select-one") {
    const near = [options[selectedIndex - 1], options[selectedIndex + 1]];
    return near.filter((option) => option && !option.disabled).map((option) => option.value);
  }
  const size = Number(step) || 1;
  return [Number(value) - size, Number(value) + size].filter((near) => near >= Number(min) && near <= Number(max));
}

/** Controls in `host`. offer: {schedules, recomputes, limits, grid}; on: {change(settings), near(list of settings), keep(), reset()}. */
export function createControls(host, offer, { settings, on }) {
  let now = settings;
  const { limits, grid } = offer;
  const sizes = grid
    ? stops("K", "devices K", grid.K, now.K) + stops("M", "micro-batches M", grid.M, now.M)
    : count("K", "devices K", now.K, Math.max(REACH.K, now.K), limits.K) +
      count("M", "micro-batches M", now.M, Math.max(REACH.M, now.M), limits.M);
  const chunks = grid ? "" : number("V", "V", now.V, limits.V, { words: "Stages per device V", least: 1, step: 1 });
  const hidden = grid ? "" : number("overlap", "hidden", now.overlap, 1, { words: "Share of the shorter op of a block that hides behind the longer one", step: 0.25 });
  const costs = Object.entries(COSTS)
    .map(([name, [label, words]]) => number(name, label, now[name], limits.cost, { words }))
    .join("");
  host.innerHTML =
    `<div class="ge-row" role="group" aria-label="Schedule">` +
    select("schedule", "schedule", Object.keys(offer.schedules).map((name) => [name, name]), now.schedule) +
    sizes +
    select("recompute", "recompute", Object.entries(offer.recomputes), now.recompute) +
    `</div>` +
    (grid
      ? ""
      : `<div class="ge-row" role="group" aria-label="Time of an op"><span class="ge-only-looped">${chunks}</span>` +
        `<span class="ge-name ge-time-of">time of</span>${costs}<span class="ge-only-pairs">${hidden}</span>` +
        `<button type="button" class="ge-word" data-do="uneven" aria-expanded="false" title="How many times the costs each stage takes" ${KEPT}>Uneven</button>` +
        `<span class="ge-gap"></span><button type="button" class="ge-word" data-do="keep" aria-pressed="false" ${KEPT}>Keep to compare</button>` +
        `<button type="button" class="ge-word" data-do="reset" ${KEPT}>Start again</button></div>` +
        `<div class="ge-row ge-factors" role="group" aria-label="How many times the costs each stage takes" hidden></div>`);
  const factorsHost = host.querySelector(".ge-factors");
  let built = -1;

  /** One box per stage; they stay as they are while only their values change, so that none loses the focus. */
  function factors() {
    const stages = stagesOf(now, offer);
    const most = Math.min(16, stages);
    if (!factorsHost || !(stages >= 1 && stages <= limits.stages)) return;
    if (built !== stages) {
      built = stages;
      const rest = stages > most ? `<span class="ge-name">stages beyond ${most - 1} take the costs once</span>` : "";
      const box = (_, stage) => number("factors", `stage ${stage}`, now.factors[stage] ?? 1, limits.cost, { index: stage });
      factorsHost.innerHTML = `<span class="ge-name">times the costs:</span>` + Array.from({ length: most }, box).join("") + rest;
    }
  }

  function show(next) {
    now = next;
    for (const input of host.querySelectorAll("[data-name]")) {
      const { name, index } = input.dataset;
      const value = index ? (now.factors[index] ?? 1) : now[name];
      const typing = input === document.activeElement && input.type === "number";
      if (!typing && String(input.value) !== String(value)) input.value = value;
    }
    for (const input of host.querySelectorAll("[data-stops]")) {
      const values = grid[input.dataset.stops];
      input.value = values.indexOf(now[input.dataset.stops]);
      input.setAttribute("aria-valuetext", now[input.dataset.stops]);
      input.nextElementSibling.textContent = now[input.dataset.stops];
    }
    const { takes_V, splits, pairs } = offer.schedules[now.schedule];
    const looped = host.querySelector(".ge-only-looped");
    if (looped) looped.hidden = !takes_V;
    const blocks = host.querySelector(".ge-only-pairs");
    if (blocks) blocks.hidden = !pairs;
    const words = host.querySelector(".ge-time-of"); // beside V and what hides there is no room for them
    if (words) words.hidden = pairs && takes_V;
    for (const option of host.querySelectorAll('[data-name="recompute"] option')) {
      option.disabled = option.value === "late" && splits;
    }
    factors();
  }

  host.addEventListener("input", (event) => {
    const { name, index, stops: list } = event.target.dataset;
    if (!name && !list) return;
    const typed = event.target.value;
    let value = typed;
    if (list) value = grid[list][Number(typed)];
    else if (event.target.type !== "select-one") value = typed.trim() === "" ? null : Number(typed);
    show(changed(now, name ?? list, value, index ?? ""));
    on.change(now);
    lookAhead(event);
  });
  host.addEventListener("focusin", lookAhead);

  /** The settings that the next key press on this control would lead to. */
  function lookAhead({ target }) {
    const { name, index } = target.dataset;
    if (name) on.near(besides(target).map((value) => changed(now, name, value, index ?? "")));
  }

  host.addEventListener("click", (event) => {
    const name = event.target.closest("[data-do]")?.dataset.do;
    if (name === "uneven") unfold(factorsHost.hidden);
    else if (name) on[name]();
  });

  function unfold(open) {
    factorsHost.hidden = !open;
    host.querySelector('[data-do="uneven"]').setAttribute("aria-expanded", String(open));
  }

  /** As at the start: what was unfolded is folded, unless these settings need it. */
  function start(first) {
    show(first);
    comparing(false);
    if (factorsHost) unfold(first.factors.length > 0);
  }

  /** Whether a chart is kept beside this one. */
  function comparing(kept) {
    const button = host.querySelector('[data-do="keep"]');
    if (!button) return;
    button.textContent = kept ? "Stop comparing" : "Keep to compare";
    button.setAttribute("aria-pressed", String(kept));
  }

  start(now);
  return { show, start, comparing };
}
