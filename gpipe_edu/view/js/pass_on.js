// A notebook takes no key of an element that carries KEPT: not even those that run the cell or save. For these the mark is
// taken away while the key is on its way, so that a click in a chart leaves nobody stuck there. But a click makes the
// chart's cell the one that runs: a reader who played and then goes on with Shift+Enter would have it run once more.

const MARK = "data-lm-suppress-shortcuts";

/** Let the notebook around `root` have the keys that run a cell and those that save. Returns what tidies up.
 *
 * goesOn: whether Shift+Enter goes on to the next cell, if there is one, and runs nothing. mayRun: asked before the cell
 * runs again. */
export function passOn(root, { goesOn = false, mayRun = () => true } = {}) {
  const page = root.ownerDocument.defaultView;
  // Notebooks listen at the document, some before and some after everything in it: so we listen first, at the window.
  page.addEventListener("keydown", unmark, true);
  return () => page.removeEventListener("keydown", unmark, true);

  function unmark(event) {
    if (!runsOrSaves(event) || !root.contains(event.target)) return;
    const next = goesOn && goesToTheNext(event) ? root.closest(".jp-Cell")?.nextElementSibling : null;
    if (next?.matches(".jp-Cell")) {
      hold(event);
      return activate(next);
    }
    if (isRun(event) && !mayRun()) return hold(event);
    const marked = [];
    for (let node = event.target; node; node = node.parentElement) if (node.hasAttribute(MARK)) marked.push(node);
    for (const node of marked) node.removeAttribute(MARK);
    setTimeout(() => marked.forEach((node) => node.setAttribute(MARK, "true")));
  }
}

function hold(event) {
  event.preventDefault();
  event.stopImmediatePropagation();
}

/** A notebook has no other way in for a widget than the one that a reader has: a click beside the cell. */
function activate(cell) {
  const beside = cell.querySelector(".jp-InputPrompt") ?? cell;
  for (const kind of ["mousedown", "mouseup"]) beside.dispatchEvent(new MouseEvent(kind, { bubbles: true, button: 0 }));
  cell.scrollIntoView({ block: "nearest" });
}

function goesToTheNext({ key, shiftKey, ctrlKey, altKey, metaKey }) {
  return key === "Enter" && shiftKey && !(ctrlKey || altKey || metaKey);
}

function runsOrSaves(event) {
  const command = event.ctrlKey || event.metaKey;
  return isRun(event) || (command && !event.altKey && event.key.toLowerCase() === "s");
}

/** Whether a key runs the cell in a notebook. Nothing of ours takes these. */
export function isRun({ key, shiftKey, ctrlKey, altKey, metaKey }) {
  return key === "Enter" && (shiftKey || ctrlKey || altKey || metaKey);
}
