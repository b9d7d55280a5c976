"""A widget in a page whose kernel is the test's own process: the real thing without the half minute of a Jupyter."""

import json

MODEL = """
const state = STATE;
const handlers = {};
function hear({ told, messages }) {
  for (const [name, text] of Object.entries(told)) {
    if (state[name] === text) continue;
    state[name] = text;
    handlers[`change:${name}`]?.forEach((handler) => handler());
  }
  for (const content of messages) handlers["msg:custom"]?.forEach((handler) => handler(content, []));
}
const model = {
  get: (name) => state[name],
  set: (name, value) => (state[name] = value),
  save_changes: () => kernel({ wish: state.wish }).then(hear),
  send: (content, callbacks, buffers = []) =>
    kernel({ content, buffers: buffers.map((each) => [...new Uint8Array(each)]) }).then(hear),
  on: (name, handler) => (handlers[name] ??= new Set()).add(handler),
  off: (name, handler) => handlers[name].delete(handler),
};
window.wake = () => kernel({}).then(hear);
render({ model, el: document.getElementById("HOST") });
"""
DOCUMENT = '<!DOCTYPE html><meta charset="utf-8"><style>body { margin: 0 }</style>'


def plain(chart):
    """What a widget's page is told of it at first."""
    traits = chart.trait_values(sync=True).items()
    return {name: value for name, value in traits if name != "layout" and not name.startswith("_")}


def hosted(css, esm, state, name="host"):
    """A piece of a page, the element `name` with that widget; it asks `kernel`, which somebody has to be."""
    told = json.dumps(state).replace("<", "\\u003c")
    script = MODEL.replace("HOST", name).replace("STATE", told)
    return f'<style>{css}</style><main id="{name}"></main><script type="module">\n{esm}\n{script}</script>'


class Kernel:
    """`Kernel(page, chart, path)` shows the widget `chart`, or another, on `page`, by way of the file `path`.

    ready: what is on the page once it is shown.
    sent: what the page has asked. busy: while true nothing is answered; `wake()` then answers all of it.
    """

    def __init__(self, page, chart, path, ready=".ge-base > *"):
        self.page, self.chart = page, chart
        self.sent, self.held, self.said, self.busy = [], [], [], False
        chart.send = lambda content, buffers=(): self.said.append(content)
        path.write_text(DOCUMENT + hosted(chart._css, chart._esm, plain(chart)), encoding="utf-8")
        page.expose_function("kernel", self.answer)
        page.goto(path.as_uri())
        page.wait_for_selector(ready, state="attached")

    def answer(self, request):
        self.sent.append(request)
        self.held.append(request)
        self.said = []
        while self.held and not self.busy:
            self.obey(self.held.pop(0))
        told = {name: getattr(self.chart, name) for name in ("payload", "answer") if self.chart.has_trait(name)}
        return {"told": told, "messages": self.said}

    def obey(self, request):
        if request.get("wish"):
            self.chart.wish = request["wish"]
        if "content" in request:
            self.chart._handle_custom_msg(request["content"], [memoryview(bytes(each)) for each in request["buffers"]])

    def wake(self):
        self.busy = False
        self.page.evaluate("wake()")
