// What every page does: charts in frames get their own height, and a page without a server says so.
(() => {
  // A chart lives in a frame of its own, and says how high it is.
  addEventListener("message", ({ data, source }) => {
    if (!(data?.geHeight > 0)) return;
    for (const frame of document.querySelectorAll("iframe.live")) {
      if (frame.contentWindow === source) frame.style.height = `${Math.ceil(data.geHeight) + 4}px`;
    }
  });

  // Opened by double click a page has charts and questions, but no Python: that comes in workers, which files cannot start.
  if (location.protocol === "file:") {
    for (const link of document.querySelectorAll('a[target="lab"]')) {
      const note = document.createElement("p");
      note.append(
        "Charts and questions work here. Python needs a server: run ",
        Object.assign(document.createElement("code"), { textContent: "python -m http.server" }),
        " in the site's folder and open http://127.0.0.1:8000",
      );
      const banner = link.closest(".banner");
      for (const words of banner.querySelectorAll("span")) words.remove();
      link.remove();
      banner.prepend(note);
    }
  }

  // What is too wide scrolls; for those without a mouse, it must be able to have the focus.
  const wide = new ResizeObserver((changes) => {
    for (const { target } of changes) if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
  });
  for (const part of document.querySelectorAll("pre, .wide, .outputs")) wide.observe(part);
})();
