// A widget's state in the page, with what anywidget promises to the widget's script: get, set, save_changes, send, on, off.

/** python: what python.js creates; number, state: what Python gave when it opened the widget. */
export function createModel(python, number, state) {
  const values = { ...state };
  const listeners = new Map();
  let unsaved = {};
  const life = python.life();

  function fire(event, ...given) {
    for (const listener of [...(listeners.get(event) ?? [])]) listener(...given);
  }

  function ask(call, given) {
    if (python.life() !== life) throw new Error("Python was started anew, and this widget belongs to the one before");
    return python.ask(call, { widget: number, ...given });
  }

  const model = {
    number,
    get: (name) => values[name],
    set(name, value) {
      values[name] = value;
      unsaved[name] = value;
      fire(`change:${name}`);
    },
    save_changes() {
      if (!Object.keys(unsaved).length) return;
      ask("update", { state: unsaved }).catch(() => {});
      unsaved = {};
    },
    send(content, _callbacks, buffers = []) {
      ask("message", { content, buffers: buffers.map(pack) }).catch(() => {});
    },
    on: (event, listener) => listeners.set(event, [...(listeners.get(event) ?? []), listener]),
    off: (event, listener) => listeners.set(event, (listeners.get(event) ?? []).filter((each) => each !== listener)),
  };
  python.hearWidget(number, ({ changed, said, buffers }) => {
    for (const [name, value] of Object.entries(changed ?? {})) {
      values[name] = value;
      fire(`change:${name}`);
    }
    if (said !== undefined) fire("msg:custom", said, buffers.map(unpack));
  });
  return model;
}

function pack(buffer) {
  const bytes = new Uint8Array(buffer.buffer ?? buffer, buffer.byteOffset ?? 0, buffer.byteLength);
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

function unpack(text) {
  return new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}
