// What a page does: questions that answer, charts of their own height. Works from a server and by double click.
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
      banner.querySelector("span")?.remove();
      link.remove();
      banner.append(note);
    }
  }

  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  /** What is said to an answer as it was given, or as it was kept; undefined to one that the question no longer has. */
  function reply(answers, kind, form, answer) {
    if (kind === "curve") return reply_to_curve(answers, answer);
    const same = (one) => (typeof answer === "number" ? Math.abs(one - answer) < 1e-9 : one === answer);
    return answers.replies.find((one) => same(one[form]));
  }

  function reply_to_curve(answers, curve) {
    const truth = answers.right.solution;
    if (curve.length !== truth.length) return undefined;
    // To nine digits, as in Python: the order in which numbers are added up must not decide.
    const mean = (values) => Math.round((values.reduce((sum, value) => sum + value, 0) / values.length) * 1e9) / 1e9;
    const off = mean(curve.map((value, i) => Math.abs(value - truth[i])));
    const said = off <= answers.near ? answers.right : mean(curve) < mean(truth) ? answers.low : answers.high;
    return { ...said, chosen: curve, kept: curve };
  }

  const kept = {
    get(key) {
      try {
        return JSON.parse(localStorage.getItem(`gpipe_edu prediction ${key}`));
      } catch {
        return null;
      }
    },
    set(key, value) {
      try {
        localStorage.setItem(`gpipe_edu prediction ${key}`, JSON.stringify(value));
      } catch {
        // a browser that keeps nothing: the answer stands until the page is left
      }
    },
  };

  for (const script of document.querySelectorAll("script.ask")) {
    const asked = JSON.parse(script.textContent);
    const state = { kind: asked.kind, question: asked.question, asked: asked.asked, outcome: {} };
    let heard = () => {};
    const after = script.closest("section").nextElementSibling;
    const fold = fold_away(after?.classList.contains("after") ? after : null);
    const answer = async (form, given) => {
      const said = reply(await unpack(asked.answers), asked.kind, form, given);
      if (!said) return;
      if (form === "given") kept.set(asked.key, said.kept);
      state.outcome = said;
      heard();
      fold();
    };
    const model = {
      get: (name) => state[name],
      on: (_name, handler) => (heard = handler),
      off() {},
      send: ({ commit }) => answer("given", commit),
    };
    const place = document.createElement("div");
    script.after(place);
    gpipePrediction({ model, el: place });
    const before = kept.get(asked.key);
    if (before !== null) answer("kept", before);
  }

  /** Fold `part` away, with a button to open it; returns what opens it. */
  function fold_away(part) {
    if (!part) return () => {};
    const button = document.createElement("button");
    button.className = "unfold";
    button.textContent = "Show what follows without answering";
    const open = () => {
      part.classList.remove("folded");
      button.remove();
    };
    button.addEventListener("click", open);
    part.classList.add("folded");
    part.before(button);
    part.open_it = open;
    return open;
  }

  function show_target() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const part = target?.closest(".folded");
    if (!part) return;
    part.open_it();
    target.scrollIntoView();
  }
  addEventListener("hashchange", show_target);
  show_target();
})();
