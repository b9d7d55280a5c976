// The learner's file in the browser: one record, which pages and the lab share, because the lab's Python reads it as a file.
//
// JupyterLite keeps its files in IndexedDB. The record is the lab's own kind, so it is there when the lab is opened.

import { merge } from "./merge.js";

const FILE = "gpipe_edu/progress.json";
const TABLE = "files";

/** lab: the path of the lab, such as "/gpipe_edu/lab/". Returns {read, keep, forget, watch}; the file is a text, "" if there is none. */
export function createStore(lab) {
  const others = new BroadcastChannel(`gpipe_edu ${lab}`);
  let line = Promise.resolve();

  /** One after another, each opening the database anew: one that stays open would keep the lab from changing it. */
  function inTurn(work) {
    const done = line.then(async () => {
      const database = await open(`JupyterLite Storage - ${lab}`);
      try {
        return await work(database.transaction(TABLE, "readwrite").objectStore(TABLE));
      } finally {
        database.close();
      }
    });
    line = done.catch(() => {});
    return done;
  }

  async function read() {
    try {
      return await inTurn(load);
    } catch {
      return ""; // no database, as in some private windows: the page works until it is closed
    }
  }

  /** Keep `mine` beside what others have changed since it was `before`; returns what is in the store then. */
  async function keep(mine, before) {
    try {
      const merged = await inTurn(async (table) => {
        const found = merge(mine, await load(table), before);
        const now = new Date().toISOString();
        const about = { created: now, last_modified: now, writable: true };
        await asked(table.put({ ...about, ...FOLDER }, FOLDER.path));
        await asked(table.put({ ...about, ...RECORD, content: found, size: found.length }, FILE));
        return found;
      });
      others.postMessage("changed");
      return merged;
    } catch {
      return mine;
    }
  }

  /** As if nothing had ever been done. */
  async function forget() {
    await inTurn((table) => asked(table.delete(FILE)));
    others.postMessage("changed");
  }

  /** Call `hear(text)` when another tab has changed the file. */
  function watch(hear) {
    others.addEventListener("message", async () => hear(await read()));
  }

  return { read, keep, forget, watch };
}

/** The sections of the file, by name; none if it cannot be read. */
export function readSections(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

const FOLDER = { name: "gpipe_edu", path: "gpipe_edu", type: "directory", format: "json", mimetype: "", content: null, size: 0 };
const RECORD = { name: "progress.json", path: FILE, type: "file", format: "text", mimetype: "application/json" };

/** The file as text; if the lab's Python wrote it first, it is in base64. */
async function load(table) {
  const { content = "", format } = (await asked(table.get(FILE))) ?? {};
  if (format === "base64") return new TextDecoder().decode(Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0)));
  return typeof content === "string" ? content : JSON.stringify(content, null, 2);
}

/** Never with a version of our own: the lab raises it with each of its tables. */
async function open(name, version) {
  const request = indexedDB.open(name, version);
  request.onupgradeneeded = () => {
    if (!request.result.objectStoreNames.contains(TABLE)) request.result.createObjectStore(TABLE);
  };
  const database = await asked(request);
  if (database.objectStoreNames.contains(TABLE)) return database;
  database.close();
  return open(name, database.version + 1);
}

function asked(request) {
  return new Promise((done, refuse) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => refuse(request.error);
    request.onblocked = () => refuse(new Error("another tab keeps the database"));
  });
}
