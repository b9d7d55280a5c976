// Python in a page, as a module worker: the first message starts it, and it answers the others one by one.
//
// In: {start: address of Pyodide's folder, files: address of {path: text}, packages}, then {number, packages, request}.
// Out: {state: what is going on, in words}, {ready: seconds}, {event: JSON}, {number, answer}, {failed: why}.

let python = null;
let host = null; // host.py
let queue = Promise.resolve();

self.onmessage = ({ data }) => {
  queue = queue.then(() => (data.start ? start(data) : answer(data))).catch((error) => self.postMessage({ failed: String(error) }));
};

async function start({ start: folder, files, packages }) {
  const began = performance.now();
  self.postMessage({ state: "Python is being fetched" });
  const [{ loadPyodide }, lock] = await Promise.all([
    import(`${folder}pyodide.mjs`),
    fetch(`${folder}pages-lock.json`).then((found) => found.json()),
  ]);
  // Only the package's own archive: what it needs for other uses would triple what is fetched.
  const archive = fetch(folder + lock.packages["gpipe-edu"].file_name).then((found) => found.arrayBuffer());
  const beside = fetch(files).then((found) => found.json());
  python = await loadPyodide({
    indexURL: folder,
    lockFileURL: `${folder}pages-lock.json`,
    stdLibURL: `${folder}pages_stdlib.zip`,
    packages,
    stdout: () => {},
  });
  self.postMessage({ state: "Python is starting" });
  python.unpackArchive(await archive, "wheel");
  for (const [path, text] of Object.entries(await beside)) {
    python.FS.mkdirTree(`/page/${path.slice(0, path.lastIndexOf("/"))}`);
    python.FS.writeFile(`/page/${path}`, text);
  }
  python.runPython("import sys; sys.path.insert(0, '/page')");
  python.pyimport("website.live.lazy_modules").fetch_when_imported((archive) => python.toPy(fetchAtOnce(folder + archive)));
  host = python.pyimport("website.live.host");
  host.start((event) => self.postMessage({ event }));
  self.postMessage({ ready: (performance.now() - began) / 1000 });
}

/** Fetch while Python waits, as an import must; a worker may do so. */
function fetchAtOnce(address) {
  const request = new XMLHttpRequest();
  request.open("GET", address, false);
  request.responseType = "arraybuffer";
  request.send();
  if (request.status !== 200) throw new Error(`${address}: ${request.status}`);
  return new Uint8Array(request.response);
}

async function answer({ number, packages, request }) {
  if (packages?.length) {
    self.postMessage({ state: `${packages.join(", ")}: being fetched` });
    await python.loadPackage(packages, { messageCallback: () => {} });
  }
  self.postMessage({ number, answer: host.call(request) });
}
