// Search, by MiniSearch: the sections of all pages come when the field is first used, as a script, so that this works
// in a page opened by double click, too. Enter opens the first hit, arrow keys go through the hits, Escape closes them.

import MiniSearch from "minisearch";

const { up } = document.body.dataset;
const field = document.querySelector("header input");
const found = document.getElementById("found");
const SHOWN = 10;
const ROUND = 60; // characters before the word that was found
const LENGTH = 150; // characters shown

let index = null; // a promise of it
let asked = 0; // how many times: the answer to an old question is not shown

function load() {
  index ??= new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = `${up}assets/sections.js`;
    script.onload = () => done(index_of(window.gpipeSections));
    script.onerror = () => fail(new Error("the list of sections is not there"));
    document.head.append(script);
  });
  return index;
}

function index_of(sections) {
  const made = new MiniSearch({
    fields: ["heading", "title", "text"],
    storeFields: ["page", "anchor", "title", "heading", "text"],
    searchOptions: {
      boost: { heading: 6, title: 2 },
      combineWith: "AND",
      prefix: true,
      fuzzy: (word) => (word.length > 4 ? 0.2 : false),
      // A heading that is just the word, as in the glossary, comes before longer ones that contain it.
      boostDocument: (_id, term, { heading }) => (heading.toLowerCase() === term ? 2 : 1),
    },
  });
  made.addAll(sections.map(([page, anchor, title, heading, text], id) => ({ id, page, anchor, title, heading, text })));
  return made;
}

/** Show what is found for the words in the field; a promise of the hits. */
async function look() {
  asked += 1;
  const mine = asked;
  const words = field.value.trim();
  if (!words) return show([], "");
  const made = await load();
  if (mine !== asked) return [];
  const hits = made.search(words);
  const count = hits.length === 1 ? "1 section" : `${hits.length} sections`;
  return show(hits.slice(0, SHOWN), hits.length ? `${count} found${hits.length > SHOWN ? `, the best ${SHOWN}:` : ":"}` : "Nothing found.");
}

function show(hits, says) {
  found.hidden = !says;
  const status = found.querySelector("p");
  status.textContent = says;
  const items = hits.map((hit) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${up}${hit.page}${hit.anchor ? `#${hit.anchor}` : ""}`;
    link.textContent = hit.heading === hit.title ? hit.title : `${hit.title}: ${hit.heading}`;
    item.append(link, ` ${piece_of(hit)}`);
    return item;
  });
  found.querySelector("ol").replaceChildren(...items);
  return hits;
}

/** The text of a section around the first of its words that was found. */
function piece_of({ text, terms }) {
  const low = text.toLowerCase();
  const places = terms.map((word) => low.indexOf(word)).filter((place) => place >= 0);
  const from = Math.max(0, Math.min(...places, text.length) - ROUND);
  const start = places.length && from ? text.indexOf(" ", from) + 1 : 0;
  const piece = text.slice(start, start + LENGTH);
  const whole = start + LENGTH >= text.length;
  return (start ? "… " : "") + (whole ? piece : `${piece.slice(0, piece.lastIndexOf(" "))} …`);
}

function close() {
  field.value = "";
  asked += 1;
  show([], "");
}

field.addEventListener("focus", load, { once: true });
field.addEventListener("input", look);
field.form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const hits = await look();
  if (hits.length) found.querySelector("a").click();
});
found.addEventListener("click", (event) => event.target.closest("a") && close()); // a hit may be on this very page

const STEPS = { ArrowDown: 1, ArrowUp: -1 };
for (const part of [field, found]) {
  part.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      close();
      field.focus();
    }
    const links = [...found.querySelectorAll("a")];
    if (!(event.key in STEPS) || !links.length) return;
    event.preventDefault();
    const next = links.indexOf(document.activeElement) + STEPS[event.key]; // the field is one before the first
    if (next < 0) field.focus();
    else links[Math.min(next, links.length - 1)].focus();
  });
}
