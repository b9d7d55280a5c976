// A schedule that one types: Python judges it at each keystroke, and the page shows the chart or what is wrong.

import { announce, createPython, startWhenIdle } from "./python.js";

const BOX = JSON.parse(document.getElementById("box").textContent); // {rows, value}: what stands there first
const rows = document.getElementById("rows");
const says = document.getElementById("says");
const picture = document.getElementById("picture");
const dark = matchMedia("(prefers-color-scheme: dark)");
const MARK = "s=";

let typed = 0; // how often
let value = BOX.value;

function show() {
  says.textContent = value.says;
  says.classList.toggle("stuck", value.stuck);
  const drawn = value.pictures[dark.matches ? "dark" : "light"];
  if (drawn) picture.innerHTML = drawn; // else the last chart stays, and the sentence says what is wrong
  picture.classList.toggle("old", !drawn);
}

const python = createPython();

function judge() {
  typed += 1;
  const mine = typed;
  python
    .ask("schedule", { rows: rows.value })
    .then((answer) => {
      if (mine !== typed) return; // a newer one is on its way
      value = answer;
      show();
    })
    .catch((error) => announce(error.message));
}

rows.addEventListener("input", () => {
  history.replaceState(null, "", `#${MARK}${encodeURIComponent(rows.value)}`);
  judge();
});
dark.addEventListener("change", show);
rows.addEventListener("focus", python.start, { once: true });
rows.value = BOX.rows;
show();
if (location.hash.startsWith(`#${MARK}`)) {
  rows.value = decodeURIComponent(location.hash.slice(1 + MARK.length));
  judge();
}
startWhenIdle(python.start);
