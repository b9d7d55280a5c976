// In the lab: a line at the bottom says what is going on until Python is ready, and cells run until then are kept.
//
// A notebook is on the screen for a while before it has a kernel, and JupyterLab forgets what is run meanwhile.
(() => {
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
    python: "Python is starting in your browser: it is fetched once, about 25 MB, and then unpacked",
    slow: "Still starting. You can read on in this notebook meanwhile; cells that you run wait for Python",
  };
  let [timer, hidden, keeping, kept] = [null, false, false, 0];
  const look = () => {
    const { jupyterapp } = window;
    if (jupyterapp && !keeping) keeping = keep_what_is_run(jupyterapp);
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

  /** Let the commands that run cells wait for a kernel, each with the cells that it was given for. */
  function keep_what_is_run({ commands, shell }) {
    const execute = commands.execute.bind(commands);
    commands.execute = async (id, given) => {
      const panel = shell.currentWidget;
      if (!id.startsWith("notebook:run") || panel?.sessionContext?.isReady !== false) return execute(id, given);
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
      if (!some) return execute(id, given);
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
