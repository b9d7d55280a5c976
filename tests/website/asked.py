"""What a page's questions say to each answer, held against the files that the questions were written in."""

import base64
import json
import re
import tomllib
import zlib
from importlib.resources import files

from markdown_it import MarkdownIt

MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
COURSE = files("gpipe_edu.course")
EXERCISES = files("gpipe_edu.judge.tasks")


def entries():
    """Every question as its file has it: key -> entry."""
    found = {}
    for file in COURSE.joinpath("predictions").iterdir():
        if file.name.endswith(".toml"):
            lesson = file.name.removesuffix(".toml")
            found |= {f"{lesson}/{name}": entry for name, entry in _toml(file).items()}
    for folder in EXERCISES.iterdir():
        if folder.name.startswith("ex") and folder.is_dir():
            asked = _toml(folder.joinpath("messages.toml")).get("predictions", {})
            found |= {f"{folder.name[:4]}/{name}": entry for name, entry in asked.items()}
    return found


def _toml(file):
    return tomllib.loads(file.read_text(encoding="utf-8"))


def on_page(html):
    """The questions of a page as it is written, unpacked as a browser does it."""
    found = []
    for text in re.findall(r'<script type="application/json" class="ask">(.*?)</script>', html, re.DOTALL):
        asked = json.loads(text)
        found.append({**asked, "answers": json.loads(zlib.decompress(base64.b64decode(asked["answers"])))})
    return found


def misjudged(asked, entry):
    """What of a question's packed replies its file says otherwise: [] where every answer is judged rightly."""
    replies = {reply["given"]: reply for reply in asked["answers"]}
    expected = _expected(asked["options"], entry)
    wrong = [] if replies.keys() == expected.keys() else [f"answered are {[*replies]}, offered {[*expected]}"]
    for given, (kept, right, solution, opening, why) in expected.items():
        said = replies.get(given)
        words = said["words"] if said else ""
        form = {name: said[name] for name in ("chosen", "kept", "right", "solution")} if said else None
        if form != {"chosen": given, "kept": kept, "right": right, "solution": solution}:
            wrong.append(f"{given} of {asked['key']} is answered with {form}")
        if not _bare(words).startswith(_bare(MARKDOWN.render(opening))) or any(
            (_bare(MARKDOWN.renderInline(text)) in _bare(words)) != is_said for text, is_said in why.items()
        ):
            wrong.append(f"{given} of {asked['key']} is told {words}")
    return wrong


def _expected(options, entry):
    """Of each letter shown: what is kept, whether it is right, the right one, and what is said and what is not."""
    named = {MARKDOWN.renderInline(text.strip()): "ABCDEF"[i] for i, text in enumerate(entry["options"])}
    shown = {letter: named[text] for letter, text in options}
    assert [*shown] == list("ABCDEF"[: len(named)])
    assert sorted(shown.values()) == sorted(named.values())
    solution = next(letter for letter, kept in shown.items() if kept == entry["answer"])
    return {
        letter: (
            kept,
            kept == entry["answer"],
            solution,
            f"You said {letter}, and {letter} it is."
            if kept == entry["answer"]
            else f"You said {letter}. It is {solution}.",
            {entry["because"].strip(): True, **{text.strip(): kept == of for of, text in entry["wrong"].items()}},
        )
        for letter, kept in shown.items()
    }


def _bare(html):
    return " ".join(re.sub(r"<[^>]+>", "", html).split())
