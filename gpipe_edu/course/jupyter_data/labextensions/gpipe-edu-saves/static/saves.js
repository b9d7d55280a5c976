// A notebook is saved when one of its cells has run, so that a check which has passed is there after a refresh, with all
// that the cells show. What is only typed is saved a few seconds later, by JupyterLab itself (see its settings here).
//
// JupyterLab's saves don't wait for one another. On a slow machine one that begins while another is on its way finds a
// file that is newer than it knows of, and asks the reader which of the two to keep: so here they go one by one.
//
// Written by hand in the form in which JupyterLab loads extensions, since it needs none of JupyterLab's modules.
(() => {
  const PAUSE = 500; // milliseconds: of cells that run one after another the last one saves

  function activate({ shell }) {
    const known = new WeakSet();
    const watch = () => {
      const { context } = shell.currentWidget ?? {};
      if (!context?.sessionContext || known.has(context)) return;
      known.add(context);
      const saveContext = context.save.bind(context);
      const saveNow = async () => context.isDisposed || saveContext(); // one closed meanwhile would say that it failed
      let saved = Promise.resolve();
      context.save = () => (saved = saved.then(saveNow, saveNow));
      let waiting = 0;
      const save = () => {
        if (!context.isDisposed && context.model.dirty && context.contentsModel?.writable) context.save();
      };
      context.sessionContext.iopubMessage.connect((_, { header, parent_header: asked, content }) => {
        const ran = header.msg_type === "status" && content.execution_state === "idle";
        if (!ran || asked.msg_type !== "execute_request") return;
        clearTimeout(waiting);
        waiting = setTimeout(save, PAUSE);
      });
    };
    shell.currentChanged.connect(watch);
    watch();
  }

  const plugin = { id: "gpipe-edu:saves", autoStart: true, activate };
  const container = { init() {}, get: async () => () => ({ __esModule: true, default: plugin }) };
  window._JUPYTERLAB = { ...window._JUPYTERLAB, "gpipe-edu-saves": container };
})();
