// The two hosts: a notebook, where a kernel answers, and a page, where the answers were worked out in advance.

import { createApp } from "./app.js";
import { download } from "./download.js";
import { bringIntoView } from "./in_view.js";
import { LOST } from "./kernel_notices.js";
import { passOn } from "./pass_on.js";

/** What a notebook calls (anywidget): traits in, traits out. Returns what tidies up. */
export function render({ model, el }) {
  function send(message) {
    try {
      model.send(message);
      return true;
    } catch {
      return false; // there is no kernel
    }
  }
  const tell = {
    settings(wish) {
      // After a restart a trait is dropped in silence, but a message raises: so one goes first.
      if (!send({ heard: wish.serial })) return false;
      model.set("wish", wish);
      model.save_changes();
      return true;
    },
    state(name, value) {
      if (String(model.get(name)) === String(value)) return;
      model.set(name, value);
      model.save_changes();
    },
    ahead: (wishes, round) => send({ ahead: wishes, round }),
    save: (kind) => send({ save: kind }) || app.refuse(LOST),
    open: (message, contents) => model.send(message, undefined, contents),
  };
  const data = JSON.parse(model.get("offer"));
  data.options = {
    ...data.options,
    memory: model.get("memory"),
    critical: model.get("critical_path"),
    speed: model.get("speed"),
  };
  const app = createApp(el, data, tell);
  const handlers = {
    "change:payload": () => app.reply(model.get("payload")),
    "msg:custom": ({ ahead, round, file, media, refused, opened }, [content] = []) => {
      if (ahead) app.got(ahead.map((text) => JSON.parse(text)), round);
      if (file) download(el.ownerDocument, file, media, content);
      if (refused) app.refuse(refused);
      if (opened) app.opened(opened);
    },
  };
  for (const name of ["theme", "cursor", "speed", "zoom", "selected", "memory", "critical_path"]) {
    handlers[`change:${name}`] = () => app.state(name, model.get(name));
  }
  for (const [name, handler] of Object.entries(handlers)) model.on(name, handler);
  app.reply(model.get("payload"));
  for (const name of ["theme", "zoom", "cursor", "selected"]) app.state(name, model.get(name));
  const stopPassing = passOn(el, { goesOn: true });
  bringIntoView(el);
  return () => {
    for (const [name, handler] of Object.entries(handlers)) model.off(name, handler);
    stopPassing();
    app.destroy();
  };
}

/** The answer to a wish, from the charts and errors that a page has, as page.py packs them. */
export function answerOf({ charts, columns, errors }, { schedule, recompute, K, M }) {
  const key = [schedule, recompute, K, M].join("|");
  if (errors[key]) return { error: errors[key] };
  const at = charts.indexOf(key);
  const spec = Object.fromEntries(Object.entries(columns).map(([field, values]) => [field, values[at]]));
  spec.needs = spec.needs.map((needs) => needs.map((earlier, op) => (earlier ? op - earlier : -1)));
  return { error: null, kept: null, specs: [spec], words: [] };
}

/** The text that was packed as deflate and base64. */
export async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** What a self-contained page calls. */
export function boot(document) {
  const data = JSON.parse(document.getElementById("ge-data").textContent);
  const frames = data.frames ? unpack(data.frames).then((text) => JSON.parse(text)) : null;
  const tell = {
    settings(wish) {
      answer(wish);
      return true;
    },
    state() {},
  };
  async function answer(wish) {
    const payload = frames ? answerOf(await frames, wish) : data.payload;
    app.show({ ...payload, settings: frames ? wish : undefined, serial: wish.serial });
  }
  const host = document.getElementById("ge-host");
  const app = createApp(host, data, tell);
  app.state("theme", data.options.theme);
  app.show(data.payload);
}
