// Python in a page, as a module worker: it is started by the first message, and answers one after another.
//
// In: {start: address of Pyodide's folder, scripts: {name: text}}, then {number, packages, request}.
// Out: {state: what is going on, in words}, {ready: seconds}, {number, answer}, {failed: why}.

let python = null;
let host = null; // host.py
let queue = Promise.resolve();

self.onmessage = ({ data }) => {
  queue = queue.then(() => (data.start ? start(data) : answer(data))).catch((error) => self.postMessage({ failed: String(error) }));
};

async function start({ start: folder, scripts }) {
  const began = performance.now();
  self.postMessage({ state: "Python is being fetched" });
  const [{ loadPyodide }, lock] = await Promise.all([
    import(`${folder}pyodide.mjs`),
    fetch(`${folder}pyodide-lock.json`).then((found) => found.json()),
  ]);
  // Of the package only the archive: what it depends on for other uses would triple what is fetched.
  const archive = fetch(folder + lock.packages["gpipe-edu"].file_name).then((found) => found.arrayBuffer());
  python = await loadPyodide({ indexURL: folder, packages: ["traitlets"], stdout: () => {} });
  self.postMessage({ state: "Python is starting" });
  python.unpackArchive(await archive, "wheel");
  python.FS.mkdir("/page");
  for (const [name, text] of Object.entries(scripts)) python.FS.writeFile(`/page/${name}`, text);
  python.runPython("import sys; sys.path.insert(0, '/page')");
  host = python.pyimport("host");
  self.postMessage({ ready: (performance.now() - began) / 1000 });
}

async function answer({ number, packages, request }) {
  if (packages) await python.loadPackage(packages, { messageCallback: () => {} });
  self.postMessage({ number, answer: host.call(request) });
}
