// A schedule that one types: Python judges it at each keystroke, and the page shows the chart or what is wrong.

import { createApp } from "../../gpipe_edu/view/js/app.js";
import { download } from "../../gpipe_edu/view/js/download.js";
import { isMine, readLink, writeLink } from "./box_link.js";
import { announce, createPython, startWhenIdle } from "./python.js";

const BOX = JSON.parse(document.getElementById("box").textContent); // {rows, offer, value}: what is there first
const { offer } = BOX;
const part = (name) => document.getElementById(name);
const [rows, says, chart] = [part("rows"), part("says"), part("chart")];
const [recipe, refused, costs] = [part("recipe"), part("refused"), part("costs")];
const [keeper, copy, copied] = [part("keep"), part("copy"), part("copied")];
const [csv, flags] = [part("csv"), part("flags")];
const FIELDS = {
  F: ["F", "Time of F, forward", ""],
  B: ["B", "Time of B, backward", ""],
  R: ["R", "Time of R, recompute; as F where it is empty", "F"],
  C: ["C", "Time of C, recompute and backward in one; R + B where it is empty", "R + B"],
  I: ["I", "Time of I, input gradient; half of B where it is empty", "B / 2"],
  W: ["W", "Time of W, weight gradient; half of B where it is empty", "B / 2"],
  send: ["latency", "Time from the end of an op to its use on another device", ""],
  link: ["link", "Time for which a message keeps its link busy", ""],
};
const ALWAYS = ["F", "B", "send", "link"]; // the other costs are those of ops that most schedules do not have
const REST = 300; // milliseconds without a key, after which the address is written: browsers refuse to do so at each one
const MOST_LINES = 12;

chart.hidden = true; // until something can be drawn
let compared = null; // {rows, costs}: the schedule that is kept to compare with
let serial = 0;

const python = createPython();
const app = createApp(chart, { names: offer.names, options: { memory: false, critical: false, speed: 1 }, explorer: null }, {
  settings: () => true,
  state() {},
});

recipe.elements.schedule.innerHTML = Object.keys(offer.schedules).map((name) => `<option>${name}</option>`).join("");
recipe.elements.recompute.innerHTML = Object.entries(offer.recomputes).map(([value, name]) => `<option value="${value}">${name}</option>`).join("");
for (const [name, value] of Object.entries(offer.settings)) recipe.elements[name].value = value;
costs.innerHTML =
  "<span>time of</span>" +
  Object.entries(FIELDS)
    .map(([name, [label, words, empty]]) => `<label title="${words}">${label} <input data-cost="${name}" aria-label="${words}" placeholder="${empty}" autocomplete="off"></label>`)
    .join("") +
  "<small>of an op: one number, or one for each stage</small>";
const inputs = [...costs.querySelectorAll("[data-cost]")];

function state() {
  return { rows: rows.value, costs: Object.fromEntries(inputs.map((input) => [input.dataset.cost, input.value])), kept: compared };
}

function fill(next) {
  rows.value = next.rows;
  for (const input of inputs) input.value = next.costs[input.dataset.cost];
  compare(next.kept);
  stretch();
}

function compare(other) {
  compared = other;
  keeper.textContent = compared ? "Stop comparing" : "Keep to compare";
  keeper.setAttribute("aria-pressed", String(Boolean(compared)));
}

function stretch() {
  rows.rows = Math.min(MOST_LINES, Math.max(3, rows.value.split("\n").length + 1)); // one for a scroll bar
}

function show(value) {
  if (says.textContent !== value.says) says.textContent = value.says;
  says.classList.toggle("stuck", value.stuck);
  if (value.chart) {
    chart.hidden = false;
    app.show({ ...value.chart, serial: ++serial });
  }
  chart.classList.toggle("old", !value.chart); // the last chart stays, and the sentence says what is wrong
  if (value.kinds) offerCosts(value.kinds);
}

/** The costs of the ops that are there; R is part of what C takes. */
function offerCosts(kinds) {
  const there = [...ALWAYS, ...kinds, kinds.includes("C") ? "R" : ""];
  for (const input of inputs) input.parentElement.hidden = !input.value && !there.includes(input.dataset.cost);
}

let due = false; // whether something has changed since Python was asked
let asking = false;

/** One question at a time: what is typed meanwhile is one more question, however many keys it took. */
async function judge() {
  due = true;
  if (asking) return;
  asking = true;
  while (due) {
    due = false;
    try {
      const value = await python.ask("schedule", state());
      if (!due) show(value);
    } catch (error) {
      announce(error.message);
    }
  }
  asking = false;
}

let writing = 0;

function write(how = "replaceState") {
  clearTimeout(writing);
  history[how](null, "", writeLink(state(), offer.costs));
}

function changed() {
  stretch();
  copied.textContent = "";
  flags.textContent = "";
  clearTimeout(writing);
  writing = setTimeout(write, REST);
  judge();
}

/** What the address says; "" is the schedule that is there first. */
function load() {
  let broken = "";
  fill({ rows: BOX.rows, costs: offer.costs, kept: null });
  if (isMine(location.hash)) {
    try {
      fill(readLink(location.hash, offer.costs));
      return judge();
    } catch (error) {
      broken = `This link to a schedule is broken (${error.message}), so the box holds the one it begins with.\n`;
    }
  }
  show({ ...BOX.value, says: broken + BOX.value.says });
  due = asking; // or the answer under way, to what was here before, would be shown
}

rows.addEventListener("input", changed);
costs.addEventListener("input", changed);
recipe.addEventListener("input", offered);
recipe.addEventListener("submit", (event) => {
  event.preventDefault();
  const { schedule, K, M, V, recompute } = recipe.elements;
  const count = ({ value }) => (value.trim() === "" ? null : Number(value));
  python
    .ask("recipe", { schedule: schedule.value, K: count(K), M: count(M), V: count(V), recompute: recompute.value })
    .then((found) => {
      refused.textContent = found.refused ?? "";
      if (found.refused) return;
      write(); // so that a step back in the browser brings back what stood there
      rows.value = found.rows;
      stretch();
      write("pushState");
      judge();
    })
    .catch((error) => announce(error.message));
});
keeper.addEventListener("click", () => {
  const { rows: now, costs: times } = state();
  if (!compared && chart.classList.contains("old")) return announce("What stands in the box cannot be drawn, so there is nothing to keep.");
  compare(compared ? null : { rows: now, costs: times });
  changed();
});
copy.addEventListener("click", () => {
  write();
  const done = navigator.clipboard ? navigator.clipboard.writeText(location.href) : Promise.reject();
  done.then(
    () => (copied.textContent = "Copied."),
    () => (copied.textContent = "The browser does not let this page copy; the link is the address of this page."),
  );
});

csv.addEventListener("click", () => {
  python
    .ask("csv", { rows: rows.value })
    .then((made) => {
      if (made.csv) download(document, made.file, "text/csv", made.csv);
      flags.textContent = made.refused ? `No CSV: ${made.refused}` : made.flags && `torchtitan takes it with ${made.flags}`;
    })
    .catch((error) => announce(error.message));
});

/** What a recipe does not have cannot be chosen for it. */
function offered() {
  const { takes_V, splits } = offer.schedules[recipe.elements.schedule.value];
  const { V, recompute } = recipe.elements;
  V.parentElement.hidden = !takes_V;
  const late = [...recompute.options].find(({ value }) => value === "late");
  late.disabled = splits;
  if (splits && late.selected) recompute.value = "none";
  refused.textContent = "";
}

addEventListener("hashchange", () => (isMine(location.hash) || location.hash === "") && load());
for (const each of [rows, costs, recipe]) each.addEventListener("focusin", python.start, { once: true });
offered();
load();
startWhenIdle(python.start);
