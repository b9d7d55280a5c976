// A cell's code becomes an editor when somebody goes to it: CodeMirror, with the colours of the page.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.bool, tags.null], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--string)" },
  { tag: [tags.number, tags.meta], color: "var(--word)" },
  { tag: tags.comment, color: "var(--comment)", fontStyle: "italic" },
]);

const LOOK = EditorView.theme({
  "&": { background: "var(--panel)", color: "inherit", border: "1px solid var(--line)", borderRadius: "4px" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "2px" },
  ".cm-scroller": { font: "inherit", lineHeight: "inherit" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 12px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--accent) 30%, transparent)",
  },
});

/** label: for screen readers. on: {change(text), run(), runAndGoOn()}. Escape, then Tab, leaves the editor. */
export function createEditor(parent, text, label, on) {
  const act = (action) => () => {
    action();
    return true;
  };
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        keymap.of([
          { key: "Shift-Enter", run: act(on.runAndGoOn) },
          { key: "Mod-Enter", run: act(on.run) },
        ]),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        indentUnit.of("    "),
        python(),
        syntaxHighlighting(COLOURS),
        LOOK,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label, autocapitalize: "off", spellcheck: "false" }),
        EditorView.updateListener.of((update) => update.docChanged && on.change(update.state.doc.toString())),
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
      ],
    }),
  });
  return {
    replace: (with_) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: with_ } }),
    focus: () => view.focus(),
  };
}
