"""No law that only our toy obeys: what is said of activation memory holds for any r, or says for which r.

r is what a layer saves for its backward over what a boundary sends: 1 in the course's MLP, 16 in its Transformer block.
A sentence of a lesson, a prediction or an exercise that says how much memory is left, in per cent, in "times as much"
or in a fraction, must do one of three things:

- its paragraph names the r that it holds for ("with r = 16");
- it stands in LAWS, with a formula that gives its figures for r = 1 and for r = 16;
- it stands in FREE, with the reason why r does not matter.
"""

import re
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import nbformat

import gpipe_edu as ge
from tests.each import each

ROOT = Path(__file__).resolve().parents[2]

MEMORY = re.compile(r"\b(memory|bytes|activations?|interior|boundary inputs?|in flight)\b", re.IGNORECASE)
FIGURE = re.compile(
    r"\d(?:[\d.,]*\d)?\s?%"
    r"|\btimes (?:less|as (?:much|many|large)|more|the|smaller|larger)\b"
    r"|\b(?:half|halves|twice|doubles?|third|quarters?|eighth|sixteenth)\b"
    r"|\b\d+/\d+\b"
)
NAMES_R = re.compile(r"\br = \d")


class Law(NamedTuple):
    """Where it is said (the beginning of a place), the formula, and the figure that the text gives for each r."""

    place: str
    formula: object
    said: dict[int, str]


def peak(r, layers, M):
    """With re-materialization, of a stage of so many layers, in what a boundary sends for the whole mini-batch."""
    return ge.formulas.peak_memory(layers, 1, M, boundary=1, layer=r)


LAWS = [
    Law("05/raise-M", lambda r: peak(r, 32 // 4, 64) / peak(r, 32 // 4, 8), {1: "56 %", 16: "18 %"}),
    Law("05/double-K", lambda r: peak(r, 32 // 8, 8) / peak(r, 32 // 4, 8), {1: "3/4", 16: "9/17"}),
    Law("05/one-f-one-b", lambda r: 32 * peak(r, 32 // 4, 32), {1: "40", 16: "160"}),
    Law("05/one-f-one-b", lambda r: 4 * (1 + r * 32 / 4), {1: "36", 16: "516"}),
    Law("05/", lambda r: 4 + r * (32 - 32 / 4), {1: "28", 16: "388"}),  # 1F1B without: K (1 + r L/K) = M + r L/K
    Law("05/", lambda r: 8 * (1 + r * 8) - r * 8, {1: "64", 16: "904"}),  # 8 kept micro-batches' room: M + 8 r
    Law("08/memory-k", lambda r: peak(r, 16 // 8, 8) / peak(r, 16 // 2, 8), {1: "62.5 %", 16: "29 %"}),
    Law("08/exp-summary", lambda r: peak(r, 16 // 8, 8) / peak(r, 16 // 2, 8), {1: "62.5 %", 16: "29 %"}),
]

FREE = {
    ("ex11_block/success", "Your two halves"): "of a backward, nothing about memory",
    ("exercise_11", "twice as much as device 0 of 1F1B"): "one block's bytes, which a cell counts",
    ("exercise_11", "twice the bytes if it is (dy"): "one block's arrays, whose numbers a cell adds up",
    ("exercise_14", "bf16 has the range of fp32"): "bytes of a number",
    ("exercise_14", "four bytes per weight instead of two"): "gradients of weights, no activations",
    ("17/equal-work", "44 k tokens, with 2.75 times the activations"): "activations in proportion to tokens",
    ("ex15_choice", "Activations: 22.8 GB if everything is kept"): "a bill of the one model that the question names",
    ("13/wof-who", "device 0 holds four mini-batches"): "counted in samples, whatever r is",
    ("14/bey-all-traffic-read", "with 4 for gradients and 2 for activations"): "bytes that are sent",
    ("14/fp8-bill", "every number has half as many bits"): "bytes of a parameter",
    ("14/way-bound", "send a gradient twice, 8 bytes per weight"): "bytes that are sent, of weights",
    ("14/way-bytes", "bytes that products read"): "bytes of a number, not of what is kept",
    ("docs/published_runs", "only matrix products take time, and scores"): "a time, of reading and writing memory",
    ("docs/measured_run", "at these costs, in this memory"): "what a diagnosis compares, in a comment of code",
    ("docs/published_runs", "rows report memory"): "real models, planned with their own r and held against reports",
    ("01/paper-share", "86 % of the memory in use"): "a bill in bytes, reported by the paper; nothing recomputed",
    ("01/", "K times less memory per device"): "a claim that the answer takes apart",
    (
        "01/",
        "about twice as large as any one of these three",
    ): "a bill in bytes, of one network that the question names",
    ("01/", "about twice as large, and no larger"): "with twice the layers any r gives twice the activations",
    ("01/activations-in-total", "4 times as much as on one device"): "an option that is wrong for any r",
    ("01/traffic", "The same bytes in four times as many messages"): "messages",
    ("01/traffic", "Four times the bytes"): "messages",
    ("15/bytes", "twice as many bytes"): "messages",
    ("02/", "each cut is crossed twice"): "messages",
    ("ex15_choice/predictions", "22.8 GB if everything is kept"): "a bill in bytes, of a model that is named",
    ("ex11_block/success", "Your two halves give the gradients"): "two halves of a backward, no memory",
    (
        "exercise_11_backward_in_two/",
        "In bytes every device then holds more than before",
    ): "counted for our layers, and said so",
    ("exercise_14_buffer/", "bf16 has the range of fp32 in half the bytes"): "bytes of a number",
    ("exercise_14_buffer/", "four bytes per weight instead of two"): "bytes of a buffer of weights",
    ("05/remat-offload-read", "at least half of the activations"): "reported by the paper, and said so",
    ("05/remat-last-read", "At M = 1, the recompute brings everything back"): "boundary + r layers, with or without",
    ("08/", "planned memory is right to within 3 %"): "a plan held against a measurement",
    (
        "09/bey-ledger-read",
        "less than half the bytes",
    ): "nothing recomputed: K micro-batches instead of M, whatever r is",
    ("09/bey-interleaved-read", "but hold more activations"): "nothing recomputed: a count of what is in flight",
    ("09/link-seconds", "the activation at a boundary is not"): "what is sent, not what is kept",
    ("12/cap-summary", "the activation, n · T · d, doubles"): "what is sent at a boundary",
    ("09/bey-interleaved-read", "5.5 whole micro-batches"): "nothing recomputed: a count of what is in flight",
    ("docs/published_runs", "62 and 64 % too high"): "planned for the runs as they were",
    ("09/breadth-first", "16 half-size activations"): "nothing recomputed: a count of what is in flight",
    (
        "10/skip-summary",
        "more than ten times the memory at the bottom",
    ): "counted for the lesson's network, and said so",
    (
        "11/",
        '"re-materialization needs K times less memory"',
    ): "the wrong claim on show; right is said for one r, in words",
    ("12/cap-cut-read", "more than 90 % of the saved"): "measured and asserted for the lesson's network",
    ("14/selective", "Much less memory, about a third more work"): "the third is of the work",
    ("14/copies-or-stages", "one sends 1.5 times the parameters"): "messages",
    (
        "docs/cheatsheet",
        "memory grows with M |",
    ): "times, bubbles and micro-batches in flight; the figure is the bubble",
    ("docs/cheatsheet", "the most common choice; `with_recompute`"): "the same",
    (
        "docs/cheatsheet",
        "in flight counts for half a device's layers |",
    ): "the same; half of the layers, with two stages",
    ("docs/cheatsheet", "as many micro-batches in flight as under GPipe"): "the same",
    (
        "docs/cheatsheet",
        "1.06 against 0.59 MB on the fullest device in lesson 09",
    ): "counted for the lesson's network, and said so",
    ("docs/cheatsheet", "a third of the work if B = 2F"): "the third is of the work",
    ("docs/cheatsheet", "| every way, the memory |"): "bytes that a sum of gradients moves",
    ("docs/further_reading", "a step of ZB-H2 is as long as one of ZB-H1"): "a count of micro-batches",
    ("docs/further_reading", "reports a half and a third"): "what the paper reports, and said so",
    ("ex05_wrapper/promises", "holds-activations"): "names of slips, which nobody reads",
    ("docs/engine_limits", "the first backward frees the activations"): "nothing is counted",
    (
        "docs/glossary",
        "the parameters are held twice, and P+1 micro-batches",
    ): "parameters, and a count of micro-batches",
    ("docs/glossary", "as many micro-batches as 1F1B's fullest device"): "bubbles, and counts of micro-batches",
    (
        "docs/paper_notes",
        "and it never falls below the first term",
    ): "a claim that is taken apart; the formula holds for any r",
    ("docs/paper_notes", "| `peak_memory` |"): "a claim that is taken apart",
    ("docs/paper_notes", "DualPipe holds the parameters twice"): "parameters",
}


def texts():
    """(place, Markdown) of everything that a learner reads: lessons, predictions, exercises, docs."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                yield f"{path.stem[:2]}/{cell.id}", cell.source
    for path in sorted((ROOT / "gpipe_edu/course/predictions").glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            yield f"{path.stem}/{name}", said_in(entry)
    for path in sorted((ROOT / "gpipe_edu/judge/tasks").glob("*/messages.toml")):
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            yield f"{path.parent.name}/{name}", said_in(entry)
    for path in sorted((ROOT / "solutions").glob("*.py")):
        for number, cell in enumerate(re.split(r"^# %%.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)):
            yield f"{path.stem}/{number}", "\n".join(line[2:] for line in cell.splitlines() if line.startswith("#"))
    for path in sorted((ROOT / "docs").glob("*.md")):
        yield f"docs/{path.stem}", path.read_text(encoding="utf-8")


def said_in(entry):
    """All texts of an entry, a paragraph: the r that a question names holds for its options, too."""
    if isinstance(entry, dict):
        return " ".join(said_in(value) for value in entry.values())
    if isinstance(entry, list):
        return " ".join(map(said_in, entry))
    return entry if isinstance(entry, str) else ""


def statements():
    """(place, sentence, paragraph) of all that say how much memory is left."""
    for place, text in texts():
        plain = re.sub(r"\]\([^)]*\)", "]", text)  # no targets and no definitions of links
        for paragraph in re.split(r"\n\s*\n|\n(?=[-|] )", plain):
            flat = " ".join(paragraph.split())
            for sentence in re.split(r"(?<=[.!?:]) (?=[A-Z*(\[`])", flat):
                if FIGURE.search(sentence) and MEMORY.search(sentence):
                    yield place, sentence, flat


def number(text):
    """("18 %") as (0.18, 0.005): the figure and half a unit of its last place."""
    if text == "half":
        return 0.5, 1e-9
    digits = re.match(r"[\d./]+", text)[0]
    if "/" in digits:
        return float(Fraction(digits)), 1e-9
    scale = 0.01 if "%" in text else 1
    return float(digits) * scale, 0.5 * scale * 10 ** -len(digits.partition(".")[2])


def test_what_is_said_of_memory_holds_for_any_r_or_says_for_which():
    found = [
        f'{place} says "{sentence}". Name the r that it holds for in the paragraph, or add it to LAWS with its '
        f"formula, or, if r does not matter, to FREE with the reason."
        for place, sentence, paragraph in statements()
        if not NAMES_R.search(paragraph)
        and not any(place.startswith(law.place) and said in sentence for law in LAWS for said in law.said.values())
        and not any(place.startswith(where) and words in sentence for where, words in FREE)
    ]
    assert not found, "\n".join(found)


@each("law", LAWS)
@each("r", [1, 16])
def test_a_law_gives_the_figure_that_the_text_has_for_each_r(law, r):
    text = " ".join(text for place, text in texts() if place.startswith(law.place))
    figure, half = number(law.said[r])
    assert abs(law.formula(r) - figure) <= half, f"r = {r}: {law.formula(r):.4g}"
    assert re.search(rf"(?<![\d.,/]){re.escape(law.said[r])}(?![\d/]|[.,]\d)", text), f"{law.place} no longer says so"


def test_what_is_free_of_r_is_still_said():
    said = [(place, sentence) for place, sentence, _ in statements()]
    gone = [
        (where, words)
        for where, words in FREE
        if not any(place.startswith(where) and words in sentence for place, sentence in said)
    ]
    assert gone == [], "take these out of FREE: no text says them any more"


def test_the_two_values_of_r_are_those_of_the_course():
    """16 for the Transformer block of the sizing guide, 1 for a linear layer with its tanh."""
    from gpipe_edu.sizing import mlp, transformer

    block = transformer(1, width=64, context=32, vocabulary=73).layers[1]
    assert block.stored / block.output == 16
    layer = mlp([128, 128, 10]).layers[0]
    assert layer.stored / layer.output == 1
