// The page's half of Python: a worker that is started when it is first needed, and asked one thing after another.

import { merge } from "./merge.js";

/** About the page: where Pyodide lies ("" where the site has none), and the Python files beside it. */
const PYTHON = JSON.parse(document.getElementById("python").textContent);
const STORE = "gpipe_edu progress";
const WITHOUT_PYTHON = "This site was built without Python, so nothing answers here: `make site` builds it with Python.";
const NEEDS_A_SERVER =
  "Python needs this page from a server; opened as a file it stands still. Run `python -m http.server` in the site's folder and open http://127.0.0.1:8000";

/** Say below the box or the board what is going on; "" when Python waits. */
export function announce(words) {
  document.getElementById("state").textContent = words;
}

/** Returns {start(), ask(call, arguments, packages)}. */
export function createPython() {
  let worker = null;
  let number = 0;
  let file = ""; // the learner's file as Python has it: answers come in the order of what was asked
  const waiting = new Map();

  function hear({ data }) {
    if (data.state) announce(data.state);
    if (data.ready !== undefined) document.documentElement.dataset.python = data.ready.toFixed(2);
    if (data.failed) fail(data.failed);
    if (data.number === undefined) return;
    const { done, refuse, call } = waiting.get(data.number);
    waiting.delete(data.number);
    if (!waiting.size) announce("");
    const { value, error, kept } = JSON.parse(data.answer);
    if (kept !== undefined) {
      if (call !== "keep") share(kept);
      file = kept;
    }
    if (error) refuse(new Error(error));
    else done(value);
  }

  /** Python has changed the file; another tab may have done so, too, since this one's Python was given it. */
  function share(text) {
    const merged = merge(text, kept(), file);
    keep(merged);
    if (merged !== text) give(merged);
  }

  function give(text) {
    ask("keep", { text }).catch((error) => announce(error.message));
  }

  function fail(why) {
    announce(`Python could not be started: ${why}`);
    for (const { refuse } of waiting.values()) refuse(new Error(why));
    waiting.clear();
  }

  function start() {
    if (worker || !PYTHON.folder) return;
    if (location.protocol === "file:") return announce(NEEDS_A_SERVER);
    worker = new Worker(new URL(PYTHON.worker, document.baseURI), { type: "module" });
    worker.onmessage = hear;
    worker.onerror = (event) => fail(event.message || "its files are not there");
    worker.postMessage({ start: new URL(PYTHON.folder, document.baseURI).href, scripts: PYTHON.scripts });
    if (kept()) give(kept());
    addEventListener("storage", ({ key, newValue }) => key === STORE && newValue && give(newValue));
  }

  /** A promise of what Python gives back; packages: what has to be loaded for it. Calls are kept until Python is up. */
  function ask(call, given, packages) {
    start();
    return new Promise((done, refuse) => {
      if (!worker) return refuse(new Error(PYTHON.folder ? NEEDS_A_SERVER : WITHOUT_PYTHON));
      number += 1;
      waiting.set(number, { done, refuse, call });
      worker.postMessage({ number, packages, request: JSON.stringify({ call, with: given }) });
    });
  }

  return { start, ask };
}

/** The learner's file, "" where there is none or the browser keeps nothing. */
export function kept(key = STORE) {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function keep(text, key = STORE) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // a browser that keeps nothing: the page works until it is closed
  }
}

/** Call `start` once when the page has been idle for a while, unless the reader's line is metered. */
export function startWhenIdle(start, seconds = 3) {
  if (!navigator.connection?.saveData) setTimeout(start, seconds * 1000);
}
