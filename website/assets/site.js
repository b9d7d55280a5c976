// What a page does: questions that answer, charts of their own height, search. Works from a server and by double click.
(() => {
  const { up } = document.body.dataset;

  // A chart lives in a frame of its own, and says how high it is.
  addEventListener("message", ({ data, source }) => {
    if (!(data?.geHeight > 0)) return;
    for (const frame of document.querySelectorAll("iframe.live")) {
      if (frame.contentWindow === source) frame.height = Math.ceil(data.geHeight) + 4;
    }
  });

  // Search: the list of sections comes with the first letter that is typed.
  const box = document.querySelector("header input");
  const found = document.getElementById("found");
  let sections = null;
  box.form.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", () => {
    if (sections) return look();
    sections = [];
    const script = document.createElement("script");
    script.src = `${up}assets/search.js`;
    script.onload = () => {
      sections = window.gpipeSections;
      look();
    };
    document.head.append(script);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      box.value = "";
      look();
    }
    if (event.key === "Enter") found.querySelector("a")?.click();
  });

  function look() {
    const words = box.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
    found.hidden = !words.length;
    if (!words.length) return;
    const hits = sections
      .map(([page, anchor, title, heading, text]) => {
        const [high, low] = [heading.toLowerCase(), text.toLowerCase()];
        if (!words.every((word) => high.includes(word) || low.includes(word))) return null;
        const score = words.reduce((sum, word) => sum + (high === word ? 50 : high.includes(word) ? 10 : 0) + Math.min(5, low.split(word).length - 1), 0);
        const from = Math.max(0, low.indexOf(words[0]) - 60);
        return { score, page, anchor, title, heading, piece: text.slice(from, from + 150) };
      })
      .filter(Boolean)
      .sort((a, b) => b.score - a.score)
      .slice(0, 10);
    const list = document.createElement("ol");
    for (const hit of hits) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `${up}${hit.page}${hit.anchor ? `#${hit.anchor}` : ""}`;
      link.textContent = hit.heading === hit.title ? hit.title : `${hit.title}: ${hit.heading}`;
      item.append(link, ` ${hit.piece}`);
      list.append(item);
    }
    found.replaceChildren(hits.length ? list : "Nothing found.");
  }
})();
