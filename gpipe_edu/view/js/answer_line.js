// The lines above a chart that say what one points at. They stand above, where the eye is, and grow but never
// shrink: a chart that moves away from under the pointer while one reads is worse than a blank line.

/** host: an empty element. Returns {show(markup)}. */
export function createAnswerLine(host) {
  let width = 0;

  return {
    show(markup) {
      if (host.clientWidth !== width) host.style.minHeight = "";
      width = host.clientWidth;
      host.innerHTML = markup;
      if (host.scrollHeight > host.clientHeight || host.offsetHeight > parseFloat(host.style.minHeight || 0)) {
        host.style.minHeight = `${host.offsetHeight}px`;
      }
    },
  };
}
