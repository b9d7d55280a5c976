// In the lab: it opens where its reader was, one notebook at a time; a line at the bottom says what is going on until
// Python is ready, and cells run until then are kept.
//
// A notebook is on the screen for a while before it has a kernel, and JupyterLab forgets what is run meanwhile.
(() => {
  const LAST = "gpipe_edu lab: last notebook";
  const FIRST = "notebooks/00_start_here.ipynb";
  const AFTER_A_RESTART = "notebook:restart-run-all";
  const address = new URL(location.href);
  if (!address.searchParams.has("path")) address.searchParams.set("path", last() ?? FIRST);
  history.replaceState(null, "", address); // before JupyterLab reads it
  const LIST_FILES = "filebrowser:activate"; // JupyterLab does so by itself when it opens what the address names
  let wanted = address.searchParams.get("path");

  const began = Date.now();
  const line = document.createElement("div");
  line.setAttribute("role", "status");
  line.style.cssText =
    "position:fixed;z-index:9999;left:50%;bottom:36px;transform:translateX(-50%);padding:8px 16px;border-radius:4px;font:15px/1.4 sans-serif;background:#0b57a4;color:#fff;max-width:90vw";
  const words = document.createElement("span");
  const close = document.createElement("button");
  close.textContent = "Hide";
  close.style.cssText = "margin-left:12px;font:inherit;color:inherit;background:none;border:1px solid #fff;border-radius:4px;cursor:pointer";
  close.addEventListener("click", () => {
    hidden = true;
    line.remove();
  });
  line.append(words, close);
  const stages = {
    lab: "JupyterLab is loading",
    python: `Python is starting in your browser: ${document.currentScript.dataset.megabytes} MB are fetched once, and unpacked`,
    slow: "Still starting. You can read on in this notebook meanwhile; cells that you run wait for Python",
  };
  let [timer, hidden, keeping, kept] = [null, false, false, 0];
  const look = () => {
    const { jupyterapp } = window;
    if (jupyterapp && !keeping) keeping = keep_what_is_run(jupyterapp);
    if (wanted && jupyterapp) show_it_alone(jupyterapp.shell);
    const panel = jupyterapp?.shell?.currentWidget;
    if (["idle", "busy"].includes(panel?.context?.sessionContext?.session?.kernel?.status)) return end();
    const seconds = Math.round((Date.now() - began) / 1000);
    const stage = !panel ? "lab" : seconds < 30 ? "python" : "slow";
    words.textContent = `${stages[stage]} (${seconds} s).${kept ? ` What you have run is kept until then (${kept}).` : ""}`;
    if (!hidden && !line.isConnected && document.body) document.body.append(line);
  };
  const watch = () => {
    timer ??= setInterval(look, 100);
    look();
  };
  const end = () => {
    clearInterval(timer);
    timer = null;
    line.remove();
  };
  watch();

  /** Once the wanted one is there: JupyterLab also opens what was open at the last visit, each with its own Python. */
  function show_it_alone(shell) {
    const open = [...shell.widgets("main")].filter(({ context }) => context?.path?.endsWith(".ipynb"));
    if (!open.some(({ context }) => context.path === wanted)) return;
    for (const panel of open) {
      if (panel.context.path === wanted) continue;
      panel.sessionContext.shutdown();
      panel.dispose();
    }
    wanted = null;
  }

  function last() {
    try {
      return localStorage.getItem(LAST);
    } catch {
      return null; // a browser that keeps nothing
    }
  }

  function remember(panel) {
    if (!panel?.context?.path.endsWith(".ipynb")) return;
    try {
      localStorage.setItem(LAST, panel.context.path);
    } catch {
      // a browser that keeps nothing
    }
  }

  /** Let the commands that run cells wait for a kernel, each with the cells that it was given for. */
  function keep_what_is_run({ commands, shell }) {
    shell.currentChanged.connect((_, { newValue }) => remember(newValue));
    const execute = commands.execute.bind(commands);
    commands.execute = async (id, given) => {
      if (id === LIST_FILES && given?.path && timer) return;
      const panel = shell.currentWidget;
      const runs_cells = id.startsWith("notebook:run") || id === AFTER_A_RESTART;
      if (!runs_cells || panel?.sessionContext?.isReady !== false) return execute(id, given);
      const notebook = panel.content;
      const cells = notebook.widgets.filter((cell) => notebook.isSelectedOrActive(cell));
      const some = id.startsWith("notebook:run-cell");
      if (some) for (const cell of cells) cell.setPrompt?.("*");
      if (some && id.endsWith("select-next")) select(notebook, notebook.widgets.indexOf(cells.at(-1)) + 1, "command");
      kept += 1;
      hidden = false;
      watch();
      await panel.sessionContext.ready;
      kept -= 1;
      if (!some) return execute(id === AFTER_A_RESTART ? "notebook:run-all-cells" : id, given); // it has just started
      const { activeCellIndex: here, mode } = notebook;
      const runs = cells
        .filter((cell) => !cell.isDisposed)
        .map((cell) => {
          select(notebook, notebook.widgets.indexOf(cell), "command");
          return execute("notebook:run-cell");
        });
      select(notebook, here, mode);
      return Promise.all(runs);
    };
    return true;
  }

  function select(notebook, index, mode) {
    notebook.deselectAll();
    notebook.mode = "command"; // in the other mode a text that becomes active shows its source
    notebook.activeCellIndex = Math.min(index, notebook.widgets.length - 1);
    notebook.mode = mode;
  }
})();
