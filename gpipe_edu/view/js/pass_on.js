// A notebook takes no key of an element that carries KEPT: not even those that run the cell or save. For these the mark is
// taken away while the key is on its way, so that a click in a chart leaves nobody stuck there.

const MARK = "data-lm-suppress-shortcuts";

/** Let the notebook around `root` have the keys that run a cell and those that save. Returns what tidies up. */
export function passOn(root) {
  const page = root.ownerDocument.defaultView;
  // Notebooks listen at the document, some before and some after everything in it: so we listen first, at the window.
  page.addEventListener("keydown", unmark, true);
  return () => page.removeEventListener("keydown", unmark, true);

  function unmark(event) {
    if (!runsOrSaves(event) || !root.contains(event.target)) return;
    const marked = [];
    for (let node = event.target; node; node = node.parentElement) if (node.hasAttribute(MARK)) marked.push(node);
    for (const node of marked) node.removeAttribute(MARK);
    setTimeout(() => marked.forEach((node) => node.setAttribute(MARK, "true")));
  }
}

function runsOrSaves(event) {
  const command = event.ctrlKey || event.metaKey;
  return isRun(event) || (command && !event.altKey && event.key.toLowerCase() === "s");
}

/** Whether a key runs the cell in a notebook. Nothing of ours takes these. */
export function isRun({ key, shiftKey, ctrlKey, altKey, metaKey }) {
  return key === "Enter" && (shiftKey || ctrlKey || altKey || metaKey);
}
