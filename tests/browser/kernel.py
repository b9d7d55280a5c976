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
render({ model, el: document.getElementById("host") });
"""


class Kernel:
    """`Kernel(page, chart, path)` shows the widget `chart`, or a puzzle, on `page`, by way of the file `path`.

    sent: what the page has asked. busy: while true nothing is answered; `wake()` then answers all of it.
    """

    def __init__(self, page, chart, path):
        self.page, self.chart = page, chart
        self.sent, self.held, self.said, self.busy = [], [], [], False
        chart.send = lambda content, buffers=(): self.said.append(content)
        traits = chart.trait_values(sync=True)
        plain = {name: traits[name] for name in traits if name != "layout" and not name.startswith("_")}
        state = json.dumps(plain).replace("<", "\\u003c")
        path.write_text(
            f'<!DOCTYPE html><meta charset="utf-8"><style>{chart._css}</style><main id="host"></main>'
            f'<script type="module">\n{chart._esm}\n{MODEL.replace("STATE", state)}</script>',
            encoding="utf-8",
        )
        page.expose_function("kernel", self.answer)
        page.goto(path.as_uri())
        page.wait_for_selector(".ge-base > *", state="attached")

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
