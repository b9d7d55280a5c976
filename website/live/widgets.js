// Shows Python's widgets with their own scripts, each of which comes once, with the first widget of its class.

import { createModel } from "./model.js";

export function createWidgets() {
  const scripts = new Map(); // by class: a promise of a module

  return {
    /** A class's script and style, as Python sends them. */
    learn({ module, script, style }) {
      const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
      scripts.set(module, import(address).finally(() => URL.revokeObjectURL(address)));
      if (document.querySelector(`style[data-module="${module}"]`)) return;
      const sheet = Object.assign(document.createElement("style"), { textContent: style });
      sheet.dataset.module = module;
      document.head.append(sheet);
    },

    /** Show a widget in `el`. */
    async show(python, el, { widget, module, state }) {
      const model = createModel(python, widget, state);
      const { default: code } = await scripts.get(module);
      code.render({ model, el });
    },
  };
}
