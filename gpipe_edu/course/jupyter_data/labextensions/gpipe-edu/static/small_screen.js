// JupyterLab's list of files starts closed where code of 120 columns does not fit beside it; a click on its icon opens it.
//
// Written by hand in the form in which JupyterLab loads extensions, since it needs none of JupyterLab's modules.
(() => {
  const FITS = 1500; // pixels: of a window of 1366 it leaves a cell 930, and 120 columns take 940

  function activate({ commands, restored, shell }) {
    if (window.innerWidth >= FITS) return;
    const close = () => shell.leftCollapsed === false && shell.collapseLeft();
    // JupyterLab opens the list by itself when it has opened the notebook that the address names.
    const byItself = (_, { id }) => {
      if (id === "filebrowser:activate") requestAnimationFrame(close);
    };
    restored.then(close);
    commands.commandExecuted.connect(byItself);
    for (const kind of ["pointerdown", "keydown"])
      window.addEventListener(kind, () => commands.commandExecuted.disconnect(byItself), { once: true, capture: true });
  }

  const plugin = { id: "gpipe-edu:small-screen", autoStart: true, activate };
  const container = { init() {}, get: async () => () => ({ __esModule: true, default: plugin }) };
  window._JUPYTERLAB = { ...window._JUPYTERLAB, "gpipe-edu": container };
})();
