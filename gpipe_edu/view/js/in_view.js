// After Shift+Enter, Jupyter shows the next cell: a chart that appears above it would be outside of the window.

const FRAMES = 120; // Jupyter puts what is rendered into the page a little later

/** Scroll to `el` once it is in the page, if its reader has just run its cell; a chart of an opened notebook, or one of
 * many cells that run, stays where it is. */
export function bringIntoView(el, frames = FRAMES) {
  if (!el.isConnected && frames > 0) {
    requestAnimationFrame(() => bringIntoView(el, frames - 1));
    return;
  }
  const cell = el.closest(".jp-Cell");
  const active = el.ownerDocument.querySelector(".jp-Notebook .jp-Cell.jp-mod-active");
  const justRun = cell && active && (cell === active || cell.nextElementSibling === active);
  if (justRun && navigator.userActivation?.isActive) el.scrollIntoView({ block: "nearest" });
}
