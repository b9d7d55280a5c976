// What every kind of prediction is made of.

export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function draw(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Without it Jupyter takes the keys: the arrows would move between cells, and "d d" would delete one.
export const ours = { "data-lm-suppress-shortcuts": "true" };

export function html(name, attributes, text) {
  const node = make(name, attributes);
  node.innerHTML = text; // made from Markdown by Python, which lets no tags through
  return node;
}

// Where a pointer is, in the units of the drawing, independent of its size on the page.
export function place(picture, event) {
  return new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
}

export const near = (low, value, high) => Math.min(Math.max(value, low), high);

export const figure = (value) => `${Math.round(value * 100) / 100}`;
