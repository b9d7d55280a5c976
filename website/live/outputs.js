// What a cell has printed and shown, below it.

/** show(el, widget): shows a widget. */
export function createOutputs(place, show) {
  const lines = new Map(); // those that Python overwrites, by number

  function add(tag, name) {
    const node = document.createElement(tag);
    node.className = name;
    place.append(node);
    return node;
  }

  return {
    clear() {
      place.replaceChildren();
      lines.clear();
    },

    print(stream, text) {
      const last = place.lastElementChild;
      const node = last?.className === stream ? last : add("pre", stream);
      node.append(text);
      node.tabIndex = node.scrollHeight > node.clientHeight ? 0 : -1; // a long one scrolls, with the keyboard too
    },

    line(number, text) {
      if (!lines.has(number)) lines.set(number, add("pre", "line"));
      lines.get(number).textContent = text;
    },

    fail: (text) => (add("pre", "error").textContent = text),

    display(bundle) {
      const text = bundle["text/plain"];
      const widget = bundle["application/x-gpipe-edu-widget"];
      if (widget) show(add("div", "widget"), widget);
      else if (bundle["text/html"]) {
        const node = add("div", "html");
        node.innerHTML = bundle["text/html"];
        leadToPages(node);
      } else if (bundle["image/svg+xml"]) add("div", "picture").innerHTML = bundle["image/svg+xml"];
      else if (bundle["image/png"]) {
        Object.assign(add("img", "picture"), { src: `data:image/png;base64,${bundle["image/png"]}`, alt: text });
      } else add("pre", "value").textContent = text;
    },
  };
}

/** In a notebook a link leads to another notebook; here to its page. */
function leadToPages(node) {
  for (const link of node.querySelectorAll("a[href]")) {
    link.setAttribute("href", link.getAttribute("href").replace(/\.(ipynb|md)(?=$|#)/, ".html"));
  }
}
