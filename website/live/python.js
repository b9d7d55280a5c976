// The page's half of Python: a worker that is started when it is first needed, and asked one thing after another.

import { createStore } from "./store.js";

/** About the page: where Pyodide lies ("" where the site has none), where the Python files beside it are, packages, the lab. */
const PYTHON = JSON.parse(document.getElementById("python").textContent);
const WITHOUT_PYTHON = "This site was built without Python, so nothing answers here: `make site` builds it with Python.";
const NEEDS_A_SERVER =
  "Python needs this page from a server; opened as a file it stands still. Run `python -m http.server` in the site's folder and open http://127.0.0.1:8000";

export const store = createStore(new URL(PYTHON.lab, document.baseURI).pathname);

/** Say in the page's status line what is going on; "" when Python is idle. */
export function announce(words) {
  document.getElementById("state").textContent = words;
}

/** hear(event): what comes while Python works and belongs to no widget. first: what is asked of each new Python. */
export function createPython({ hear = () => {}, first } = {}) {
  let worker = null;
  let ready = null; // a promise: the worker knows the learner's file
  let number = 0;
  let lives = 0; // workers so far
  let up = false; // whether the worker has started Python
  let file = ""; // the learner's file as Python has it: answers come in the order of what was asked
  const waiting = new Map();
  let widgets = new Map();

  function heard({ data }) {
    if (data.state) announce(data.state);
    if (data.ready !== undefined) {
      up = true;
      document.documentElement.dataset.python = data.ready.toFixed(2);
    }
    if (data.failed) fail(data.failed);
    if (data.event) happened(JSON.parse(data.event));
    if (data.number === undefined) return;
    const { done, refuse, call } = waiting.get(data.number);
    waiting.delete(data.number);
    if (!waiting.size) announce("");
    const { value, error, kept } = JSON.parse(data.answer);
    if (kept !== undefined) {
      if (call !== "keep") share(kept, file);
      file = kept;
    }
    if (error) refuse(new Error(error));
    else done(value);
  }

  function happened(event) {
    const listener = event.widget !== undefined && widgets.get(event.widget);
    if (listener) listener(event);
    else hear(event);
  }

  /** Python has changed the file; another tab may have done so, too, since this one's Python was given it. */
  async function share(text, before) {
    const merged = await store.keep(text, before);
    if (merged !== text) tell(merged);
  }

  /** Give Python the file as it is in the store. */
  function tell(text) {
    if (worker && text) post("keep", { text }).catch(() => {}); // refused only where Python itself has ended
  }

  /** The worker is of no more use; the next question starts another. */
  function fail(why) {
    worker?.terminate();
    worker = null;
    const words = up ? `Python has ended, and what cells had defined is gone: ${why}` : `Python could not be started: ${why}`;
    refuseAll(words);
    announce(words);
  }

  function refuseAll(why) {
    for (const { refuse } of waiting.values()) refuse(new Error(why));
    waiting.clear();
  }

  function start() {
    if (worker || !PYTHON.folder) return;
    if (location.protocol === "file:") return announce(NEEDS_A_SERVER);
    lives += 1;
    widgets = new Map();
    file = "";
    up = false;
    worker = new Worker(new URL(PYTHON.worker, document.baseURI), { type: "module" });
    worker.onmessage = heard;
    worker.onerror = (event) => fail(event.message || "its files are not there");
    const address = (path) => new URL(path, document.baseURI).href;
    worker.postMessage({ start: address(PYTHON.folder), files: address(PYTHON.files), packages: PYTHON.packages });
    ready = store.read().then((text) => {
      tell(text);
      if (first) post(first, {});
    });
  }

  /** End the worker, whatever it does, and start another: that always works, and loses all names. */
  function startAnew() {
    worker?.terminate();
    worker = null;
    refuseAll("stopped");
    start();
  }

  function post(call, given, packages) {
    number += 1;
    const mine = number;
    const answer = new Promise((done, refuse) => waiting.set(mine, { done, refuse, call }));
    worker.postMessage({ number: mine, packages, request: JSON.stringify({ call, with: given }) });
    return answer;
  }

  /** A promise of what Python gives back; packages: what has to be loaded for it. Calls are kept until Python is up. */
  async function ask(call, given, packages) {
    start();
    if (!worker) throw new Error(PYTHON.folder ? NEEDS_A_SERVER : WITHOUT_PYTHON);
    const life = lives;
    await ready;
    if (!worker || life !== lives) throw new Error("stopped"); // while the store was read
    return post(call, given, packages);
  }

  store.watch(tell);
  return { start, startAnew, ask, tell, life: () => lives, hearWidget: (which, listener) => widgets.set(which, listener) };
}

/** Text that this page keeps for itself: what stood here last. "" where there is none or the browser keeps nothing. */
export function kept(key) {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function keep(key, text) {
  try {
    if (text) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
  } catch {
    // a browser that keeps nothing: the page works until it is closed
  }
}

/** Call `start` once when the page has been idle for a while, unless the reader's connection is metered. */
export function startWhenIdle(start, seconds = 3) {
  if (!navigator.connection?.saveData) setTimeout(start, seconds * 1000);
}
