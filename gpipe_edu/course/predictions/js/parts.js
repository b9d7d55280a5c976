// What a prediction is made of.

export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
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
