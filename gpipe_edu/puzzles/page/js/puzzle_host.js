// The puzzle in a notebook: moves go to Python as messages, answers come as one trait.

import { bringIntoView } from "../../../view/js/in_view.js";
import { passOn } from "../../../view/js/pass_on.js";
import { createPuzzle } from "./puzzle_app.js";

/** What a notebook calls (anywidget). Returns a function that tidies up. */
export function render({ model, el }) {
  const puzzle = createPuzzle(el, JSON.parse(model.get("offer")), (message) => model.send(message));
  const answer = () => puzzle.show(JSON.parse(model.get("answer")));
  const theme = () => puzzle.theme(model.get("theme"));
  model.on("change:answer", answer);
  model.on("change:theme", theme);
  theme();
  answer();
  const stopPassing = passOn(el, { goesOn: true, mayRun: puzzle.mayRun });
  bringIntoView(el);
  return () => {
    model.off("change:answer", answer);
    model.off("change:theme", theme);
    stopPassing();
    puzzle.destroy();
  };
}
