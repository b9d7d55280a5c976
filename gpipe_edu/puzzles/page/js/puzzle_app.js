// The whole puzzle: levels, board, palette, tools, and what Python says to every move. It sends words and draws answers.

import { download } from "../../../view/js/download.js";
import { LOST, PATIENCE, SILENT } from "../../../view/js/kernel_notices.js";
import { meaning } from "../../../view/js/keys.js";
import { escape } from "../../../view/js/lettering.js";
import { legendMarkup } from "../../../view/js/legend.js";
import { isRun } from "../../../view/js/pass_on.js";
import { createBoard } from "./puzzle_board.js";
import { opLabel, sentence } from "./puzzle_moves.js";
import { createPalette } from "./puzzle_palette.js";
import { figuresMarkup, frameMarkup, levelMarkup, levelsMarkup, proofWords, saidMarkup, solvedMarkup, whyMarkup } from "./puzzle_panel.js";
import { createRun } from "./puzzle_run.js";

const EMPTIES = "This level is recorded as solved, but the board would be empty if the cell ran again; press the keys once more to run it.";
const SLOW = { finish: "Looking for a way …", prove: "Searching; this can take ten seconds …", run: "Training with your schedule …" };
const RAN = {
  true: "Your schedule has trained a model, with the gradients of one device; below it stands beside its plan",
  false: "Your schedule has trained a model, but its gradients are not the same as on one device",
};

/** send(message): to Python; it raises without a kernel. silent: what is said where no answer comes for a while.
 * Returns {show(answer), theme(name), mayRun(), destroy()}. */
export function createPuzzle(host, offer, send, silent = SILENT) {
  const mark = `gp${Math.random().toString(36).slice(2, 9)}`;
  host.classList.add("ge-gantt", "ge-puzzle");
  host.dataset.lmSuppressShortcuts = "true";
  host.innerHTML = frameMarkup(offer.sandbox);
  const part = (name) => host.querySelector(`.${name}`);
  let state = null;
  let serial = 0;
  let waiting = 0; // the timer that runs while an answer is due
  let warned = false; // that the solved board goes when the cell runs again
  let last = null; // what was done last, to know where the focus belongs

  const board = createBoard(part("gp-board"), {
    mark,
    names: offer.names,
    on: {
      place: (device, op) => act("place", { device, op }),
      move: (from, to) => act("move", { device: from.device, at: from.at, to_device: to.device, to: to.at }),
      remove: ({ device, at }) => act("remove", { device, at }),
      say: (words) => (part("ge-live").textContent = words),
      tell: (words) => words && say(words, "note"),
    },
  });
  const palette = createPalette(part("gp-palette"), {
    names: offer.names,
    on: {
      place: (device, op) => act("place", { device, op }),
      drag: (event, _device, op) =>
        board.drag(event, (gap) => gap && act("place", { device: gap.device, op, at: gap.at }), op),
    },
  });

  const run = createRun(part("gp-run"), { mark: `${mark}-r`, names: offer.names, tell: (words) => (part("ge-live").textContent = words) });

  function say(text, kind, back = 0) {
    part("gp-said").innerHTML = saidMarkup(text, kind, back);
  }

  /** What to do with an empty board. */
  function beginning() {
    const device = state.ready.findIndex((ops) => ops.length);
    const fresh = state.rows.every((row) => !row.length) && device >= 0;
    return fresh ? `Click ${opLabel(state.ready[device][0], false)} in the row of device ${device}, or drag it onto the board` : "";
  }

  /** Asks Python. Every answer says what it is for; without one for a while, the page says why that may be. */
  function act(command, details = {}) {
    serial += 1;
    warned = false;
    last = { command, details };
    clearTimeout(waiting);
    try {
      send({ do: command, with: details, serial });
    } catch {
      return say(`${LOST} Solved levels and this board are kept.`, "no");
    }
    host.setAttribute("aria-busy", "true");
    if (SLOW[command]) say(SLOW[command], "note");
    else waiting = setTimeout(() => say(silent, "note"), PATIENCE);
  }

  function show(answer) {
    if (answer.serial >= serial || answer.serial === 0) {
      clearTimeout(waiting);
      host.removeAttribute("aria-busy");
    }
    const held = host.contains(document.activeElement) ? document.activeElement : null;
    const fromPalette = part("gp-palette").contains(held);
    const changed = !state || JSON.stringify(state.rows) !== JSON.stringify(answer.state.rows) || state.level.key !== answer.state.level.key;
    const levelBefore = state?.level.key;
    state = answer.state;
    draw(answer, levelBefore);
    if (changed) outdate();
    if (answer.hint) showHint(answer.hint);
    else if (answer.proof) part("gp-proof").textContent = proofWords(answer.proof);
    if (answer.share) showShare(answer.share);
    if (answer.csv) showCsv(answer);
    if (answer.run) run.show(answer.run);
    refocus(held, fromPalette, answer); // a board that gets the focus says where that is, so Python's words come after
    tellAbout(answer, answer.did);
  }

  function draw(answer, levelBefore) {
    const { level, levels } = state;
    const number = levels.findIndex(({ key }) => key === level.key) + 1;
    part("gp-levels").innerHTML = levelsMarkup(levels, level.key);
    part("gp-level").innerHTML = levelMarkup(level, number);
    part("gp-sandbox").hidden = level.key !== offer.sandbox.key;
    part("gp-figures").innerHTML = figuresMarkup(answer.board.spec.figures);
    if (levelBefore !== level.key) board.set({ place: null });
    board.show(answer.board, state.rows, state.problems);
    palette.show(answer.board.left, state.ready);
    part("gp-desk").classList.toggle("gp-wide", level.kinds.length > 4);
    part("gp-palette").hidden = answer.board.left.every((groups) => !groups.length);
    host.querySelector('[data-tick="free"]').checked = state.mode === "free";
    const problems = state.mode === "free" ? state.problems : [];
    part("gp-problems").hidden = !problems.length;
    part("gp-problems").innerHTML = problems.map(({ message }) => `<li>${escape(sentence(message))}</li>`).join("");
    const next = levels[number] ?? null;
    part("gp-solved").hidden = !state.solved;
    part("gp-solved").innerHTML = state.solved ? solvedMarkup(offer.engines, next) : "";
    part("gp-why").innerHTML = whyMarkup(level);
    if (levelBefore !== level.key) part("gp-proof").textContent = "";
    part("gp-where").textContent = state.progress;
    part("ge-error").hidden = !state.notice;
    part("ge-error").textContent = sentence(state.notice);
    const shown = { memory: Boolean(level.cap), unit: answer.board.unit };
    part("ge-legend").innerHTML = legendMarkup([{ kind: level.kinds, cap: level.cap }], offer.names, shown, `${mark}-l`);
  }

  function tellAbout(answer, did) {
    if (!answer.accepted) return say(answer.message, "no");
    if (answer.hint) return say(answer.hint.text, "note", answer.hint.back);
    if (answer.proof) return say("The search is done; its result stands under “Why is this par?”.", "note");
    if (answer.run) return say(RAN[answer.run.equal], answer.run.equal ? "yes" : "no");
    if (answer.csv) return say("The board is saved as PyTorch's pipeline CSV", "note");
    if (answer.share) return say("The share string is made: copy it from its field.", "note");
    const steps = ["clear", "undo", "redo", "back"];
    if (state.complete && !steps.includes(did)) return say(state.verdict, state.solved ? "yes" : "note");
    const words = did === "level" ? `Level: ${answer.message}` : answer.message;
    const more = [words, beginning() || stuckWords()].filter(Boolean);
    say(more.map(sentence).join(" "), "note");
  }

  /** Where nothing can be placed any more and the board is not complete, moves have to be taken back. */
  function stuckWords() {
    const dead = !state.complete && !state.problems.length && state.ready.every((ops) => !ops.length);
    return dead ? "Nothing can be placed any more: a device is full of what cannot be finished. Take some back" : "";
  }

  function showHint(hint) {
    board.set({ hint });
    palette.set({ hint });
  }

  function showShare(text) {
    const field = part("gp-string");
    field.hidden = false;
    field.value = text;
    host.querySelector('[data-do="copy"]').hidden = false;
    field.focus();
    field.select();
  }

  /** Another view of the same puzzle gets the answer, too, and saves nothing. */
  function showCsv({ csv: { file, text, flags }, serial: asked }) {
    if (asked === serial && last?.command === "csv") download(host.ownerDocument, file, "text/csv", text);
    part("gp-csv").hidden = !flags;
    part("gp-csv").innerHTML = flags ? `torchtitan takes it with <code>${escape(flags)}</code>` : "";
  }

  /** A board that has changed has not been run, nor is it the one that was shared. */
  function outdate() {
    run.end();
    part("gp-string").hidden = true;
    part("gp-csv").hidden = true;
    host.querySelector('[data-do="copy"]').hidden = true;
  }

  /** When a button goes away another one gets the focus, so that no key ever reaches the notebook. */
  function refocus(held, fromPalette, { did, share }) {
    if (share) return;
    if (!held || (document.activeElement === held && host.contains(held) && !fromPalette)) return;
    if (state.solved && fromPalette) return part("gp-solved").querySelector("button").focus();
    if (did === "level" || did === "open" || fromPalette) {
      if (palette.focus()) return;
    }
    const same = held.dataset.level && host.querySelector(`[data-level="${held.dataset.level}"]`);
    if (same) return same.focus();
    if (held.dataset.engine && state.solved) return host.querySelector(`[data-engine="${held.dataset.engine}"]`).focus();
    if (!host.contains(document.activeElement)) board.focus();
  }

  const actions = {
    undo: () => act("undo"),
    redo: () => act("redo"),
    clear: () => act("clear"),
    remove() {
      const { place } = board;
      if (place && state.rows[place.device][place.at]) act("remove", place);
      else say("First choose an op on the board: click it, or go there with the arrow keys", "note");
    },
    hint: ({ size }) => act("hint", { size: Number(size) }),
    prove: () => act("prove"),
    share: () => act("share"),
    csv: () => act("csv"),
    back: ({ moves }) => act("back", { moves: Number(moves) }),
    run_on: () => act("run_on"),
    stamp: () => act("stamp"),
    finish: () => act("finish"),
    run: ({ engine }) => act("run", { engine }),
    next: ({ next }) => act("level", { key: next }),
    copy() {
      const field = part("gp-string");
      field.select();
      const done = navigator.clipboard?.writeText(field.value) ?? Promise.reject();
      done.then(
        () => say("Copied", "note"),
        () => say("Copy it with Ctrl+C: the string is selected", "note"),
      );
    },
  };
  host.addEventListener("click", (event) => {
    const { do: name, ...details } = event.target.closest("[data-do]")?.dataset ?? {};
    if (name) actions[name](details);
    const key = event.target.closest("[data-level]")?.dataset.level;
    if (key) act("level", { key });
  });
  host.addEventListener("change", ({ target }) => {
    if (target.dataset.tick === "ghosts") {
      board.set({ ghosts: target.checked });
      palette.set({ marked: target.checked });
    }
    if (target.dataset.tick === "free") act("mode", { mode: target.checked ? "free" : "guided" });
  });
  host.addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    if (form.matches(".gp-type")) act("type", { text: form.querySelector("input").value });
    if (form.matches(".gp-open")) act("open", { text: form.querySelector("input").value });
    if (form.matches(".gp-sandbox")) act("sandbox", sizes(form));
  });
  host.addEventListener("keydown", (event) => {
    // JupyterLab keeps the browser from submitting a form on Enter.
    if (event.key === "Enter" && !isRun(event) && event.target.matches("form input")) {
      event.preventDefault();
      event.stopPropagation();
      return event.target.form.requestSubmit();
    }
    const undoOrRedo = meaning("puzzle", event);
    if (!undoOrRedo || event.target.matches("input[type=text], input[type=number]")) return;
    event.preventDefault();
    event.stopPropagation();
    act(undoOrRedo);
  });

  /** What the sandbox is to be; an empty field keeps Python's default. */
  function sizes(form) {
    const filled = [...form.querySelectorAll("[data-size]")].filter(({ value }) => value.trim() !== "");
    return Object.fromEntries(filled.map(({ dataset, value }) => [dataset.size, Number(value)]));
  }

  return {
    show(answer) {
      show(answer);
      const typed = host.querySelector(".gp-type input");
      if (answer.did === "type" && answer.accepted && last?.details.text === typed.value) typed.value = "";
      if (answer.did === "open" && answer.accepted) host.querySelector("[data-open]").value = "";
    },
    theme: (name) => (host.dataset.theme = name),
    /** Whether the cell may run again: a board that is not finished comes back then, but of a solved one only the record. */
    mayRun() {
      const known = warned || !state?.solved;
      if (!known) say(EMPTIES, "note");
      warned = true;
      return known;
    },
    destroy() {
      clearTimeout(waiting);
      run.end();
      board.destroy();
    },
  };
}
