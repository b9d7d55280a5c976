// What the reader has done, counted from the learner's file: on the progress page, and behind the front page's first button.

import { merge } from "./merge.js";
import { createStore, readSections } from "./store.js";

const COURSE = JSON.parse(document.getElementById("course").textContent);
const SURE = 5000; // milliseconds in which a second click forgets everything

const store = createStore(new URL("lab/", document.baseURI).pathname);
const part = (name) => document.getElementById(name);

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** What the file's text says: whether each lesson and exercise is done, and what to go on with. */
function count(text) {
  const { predictions = {}, challenges = {}, exercises = {}, puzzle = {} } = readSections(text);
  const lessons = COURSE.lessons.map((lesson) => {
    const made = lesson.predictions.filter((key) => key in predictions);
    const solved = lesson.challenges.filter((key) => challenges[key] === "solved");
    const open = [...lesson.predictions, ...lesson.challenges].filter((key) => !made.includes(key) && !solved.includes(key));
    const parts = [`${made.length} of ${plural(lesson.predictions.length, "prediction")} made`];
    if (lesson.challenges.length) parts.push(`${solved.length} of ${plural(lesson.challenges.length, "challenge")} solved`);
    const begun = made.length + solved.length > 0;
    return { ...lesson, begun, done: open.every((key) => lesson.optional.includes(key)), how: begun ? parts.join("; ") : "" };
  });
  const thread = COURSE.thread.map((number) => lessons.find((lesson) => lesson.number === number));
  const rooms = lessons.filter((lesson) => !thread.includes(lesson));
  const last = thread.findLastIndex(({ begun }) => begun);
  return {
    lessons,
    here: [...thread.slice(Math.max(0, last)), ...rooms].find(({ done }) => !done),
    begun: lessons.some(({ begun }) => begun),
    exercises: COURSE.exercises.map((one) => {
      const { tries = 0, passed, but } = exercises[one.key] ?? {};
      const how = passed ? `solved ${passed}${but ? ", but for a promise" : ""}` : tries ? `${tries} ${tries === 1 ? "try" : "tries"}` : "";
      return { ...one, done: Boolean(passed), how };
    }),
    levels: COURSE.levels.filter((level) => level in puzzle).length,
  };
}

function show(text) {
  const { lessons, here, begun, exercises, levels } = count(text);
  const words = here ? `${begun ? "Go on with" : "Start with"} lesson ${here.number}` : "All lessons are done";
  const link = part("begin");
  if (link) {
    link.textContent = words;
    if (here) link.href = here.page;
    return;
  }
  part("way").innerHTML = here ? `<a class="button" href="${here.page}">${words}: ${here.title}</a>` : words;
  const rows = [...lessons.map((one) => [`[data-lesson="${one.number}"]`, one]), ...exercises.map((one) => [`[data-exercise="${one.key}"]`, one])];
  for (const [selector, { done, how }] of rows) {
    document.querySelector(`${selector} .done`).textContent = done ? "\u2713" : "";
    document.querySelector(`${selector} .how`).textContent = how;
  }
  part("levels").textContent = `${levels} of ${plural(COURSE.levels.length, "level")} solved`;
}

async function save() {
  const text = await store.read();
  if (!text) return say("There is nothing to save yet.");
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  Object.assign(document.createElement("a"), { href: address, download: "progress.json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  return say("Saved as progress.json.");
}

async function load(file) {
  const text = await file.text();
  const sections = Object.values(readSections(text)).filter((one) => typeof one === "object");
  if (!sections.length) return say(`${file.name} holds no progress of this course: nothing was changed.`);
  const before = await store.read();
  show(await store.keep(merge(before || "{}", text, ""), before));
  return say(`What ${file.name} holds counts now, beside what was here.`);
}

function say(words) {
  part("said").textContent = words;
}

/** A first click asks, a second forgets. */
async function forget() {
  const button = part("forget");
  if (!button.dataset.sure) {
    button.dataset.sure = "asked";
    button.textContent = "Really forget all of it?";
    setTimeout(() => {
      delete button.dataset.sure;
      button.textContent = "Forget everything";
    }, SURE);
    return;
  }
  await store.forget();
  show("");
  say("Forgotten.");
}

store.read().then(show);
store.watch(show);
if (part("save")) {
  part("save").addEventListener("click", save);
  part("load").addEventListener("change", ({ target }) => target.files[0] && load(target.files[0]).finally(() => (target.value = "")));
  part("forget").addEventListener("click", forget);
}
