"""No prediction can be answered by reading on: what stands around a question states neither its answer nor a claim.

A notebook lies open from top to bottom, also before its first cell is run. The site folds what follows a question, but
neither what stands above it nor what comes behind the next heading. So around a question

- up to the next heading nothing is asserted (`lesson_claims.py` does it elsewhere), and what `on_your_machine` says
  stands in folded cells (`source_hidden`). JupyterLab shows the first line of a folded cell, so that is a comment;
- no sentence has the numbers of the right option, or its words. What they explain is said after the commit, by
  `because`.
"""

import ast
import io
import re
import tokenize
from typing import NamedTuple

import pytest

from gpipe_edu.course.predictions import question
from tests.each import each

from .test_standard import LESSONS, folded, read

SCREEN = 5
"""So many cells below a question one sees without scrolling, even if a heading stands among them."""
HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
ASKS = re.compile(r'^predict\("([^"]+)"\)', re.MULTILINE)
LABEL = re.compile(r"\b(device|stage|layer|lesson|level|hint) (\d+)")
"""A number that is a name: "device 0" is another one than "0 units"."""
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:/\d+)?(?![\w/])")
COUNTED = {
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "ten": "10",
    "twice": "2",
    "half": "1/2",
    "halves": "1/2",
}
"""Numbers in words; "one" is too often none."""
COMMON = re.compile(
    r"("
    r"about|after|against|again|almost|alone|also|always|before|behind|below|between|both|cannot"
    r"|comes|does|each|either|else|enough|every|exactly|from|goes|hardly|have|here|into|itself|just"
    r"|last|less|like|longer|made|make|makes|many|more|most|much|nearly|need|needs|never|nobody"
    r"|nothing|once|only|other|others|over|same|some|still|such|takes|than|that|their|them|then|there"
    r"|these|they|this|those|through|time|under|until|what|when|where|which|while|with|without|would"
    r"|your"
    r")"
)
"""Words that tell nothing by themselves."""

OTHERWISE = {
    ("01/real-bill", "real-sum-after"): "the layers of the next network",
    ("02/best-cut", "split-small-best-explain"): "the next problem, which has other costs",
    ("02/waist", "turn-sends"): "the widths of another model",
    ("05/what-is-stored", "remat-stored-intro"): "what a boundary input is",
    ("05/except-last", "remat-thin"): "the next section, on thin stages",
    ("05/same-memory", "remat-pays-title"): "the two pipelines asked about",
    ("05/same-memory", "remat-pays-plot"): "their names in the plot",
    ("09/zero-bubble-rest", "bey-zb-price"): "three devices, which hold 3",
    ("11/six-point-three", "table-two"): "two models",
    ("11/six-point-three", "ratios-say"): "the base of another claim",
    ("11/best-fit", "one-parameter"): "what q is",
    ("11/best-fit", "scan"): "what q is",
    ("11/best-fit", "scan-after"): "the other model",
    ("14/copies-or-stages", "way-zero-intro"): "what ZeRO stores",
}
"""Sentences with the numbers or words of an answer that mean something else: the question, the cell, what is meant."""


class Seen(NamedTuple):
    """A piece of text that a reader sees near a question: a sentence, a comment, a text in code."""

    cell: str
    text: str


def asked(path):
    """Each question of a lesson, with what stands in its section above it, below it, and on the screen behind that."""
    cells = read(path).cells
    for at, cell in enumerate(cells):
        if cell.cell_type == "code" and (asks := ASKS.search(cell.source)):
            yield question.find(asks[1]), above(cells[:at]), *below(cells[at + 1 :])


def above(cells):
    """From the last heading on."""
    found = []
    for cell in reversed(cells):
        headings = (
            [heading.start() for heading in HEADING.finditer(cell.source)] if cell.cell_type == "markdown" else []
        )
        found.append(part(cell, cell.source[headings[-1] :]) if headings else cell)
        if headings:
            break
    return found[::-1]


def below(cells):
    """Up to the next heading, and what one still sees behind it."""
    for end, cell in enumerate(cells):
        if cell.cell_type == "markdown" and (heading := HEADING.search(cell.source)):
            in_front, behind = cell.source[: heading.start()], cell.source[heading.start() :]
            return [*cells[:end], part(cell, in_front)], [
                part(cell, behind),
                *cells[end + 1 : SCREEN],
            ] if end < SCREEN else []
    return cells, []


def part(cell, source):
    """The cell with only this text."""
    return type(cell)({**cell, "source": source})


def claims(cell):
    """The lines of a code cell that assert something, or say what holds on a quiet machine."""
    found = []
    for node in ast.walk(ast.parse(cell.source)):
        said = isinstance(node, ast.Call) and ast.unparse(node.func) == "on_your_machine"
        if said or isinstance(node, ast.Assert):
            found.append(cell.source.splitlines()[node.lineno - 1].strip())
    return found


def texts(source):
    """The comments and texts of code as they stand there. Since Python 3.12 an f-string is several tokens."""
    lines, within = source.splitlines(), []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            within.append(token.start)
        elif kind == "FSTRING_END":
            (top, left), (bottom, right) = within.pop(), token.end
            if not within:
                rows = [*lines[top - 1 : bottom - 1], lines[bottom - 1][:right]]
                yield "\n".join([rows[0][left:], *rows[1:]])
        elif not within and kind in ("COMMENT", "STRING"):
            yield token.string


def visible(cell, site=False):
    """What a reader sees of a cell, in sentences: of code its comments, texts and asserts. The site folds no cell."""
    if cell.cell_type == "markdown":
        text = re.sub(r"<details>.*?</details>|```.*?```", " ", cell.source, flags=re.DOTALL)
        text = re.sub(r"\]\([^)]*\)", "]", text)
        pieces = re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n- |\|", text)
    elif folded(cell) and not site:
        pieces = cell.source.splitlines()[:1]
    else:
        pieces = [*texts(cell.source), *claims(cell)]
    return [Seen(cell.id, " ".join(piece.split())) for piece in pieces if piece.strip()]


def numbers(text):
    """Those of a text, in digits or words: {"21", "0.5", "device 3"}."""
    text = re.sub(r"\{[^{}]*\}|\b\d+[- ]bits?\b", " ", text.lower().replace("`", ""))
    named = {f"{kind} {number}" for kind, number in LABEL.findall(text)}
    text = LABEL.sub(" ", text)
    words = {COUNTED[word] for word in re.findall(r"[a-z]+", text) if word in COUNTED}
    return named | words | {number.replace(",", "") for number in NUMBER.findall(text)}


def stems(text):
    """The words that may tell something, without their endings."""
    return {word[:6] for word in re.findall(r"[a-z]{4,}", text.lower()) if not COMMON.fullmatch(word)}


def tells(choice, text):
    """Whether a sentence states the right option rather than another: its own numbers, or nearly all its words."""
    right = choice.options[choice.answer]
    others = [option for letter, option in choice.options.items() if letter != choice.answer]
    own = numbers(right) - numbers(choice.text).union(*map(numbers, others))
    words, said = stems(right), stems(text)
    if own and own <= numbers(text) and (len(words) < 2 or words & said):
        return True
    share = [len(each & said) / max(1, len(each)) for each in (words, *map(stems, others))]
    return len(words) > 1 and share[0] >= 0.75 and share[0] > max(share[1:])


def told(path):
    """Of each question the sentences around it that state its answer, but for OTHERWISE."""
    for choice, up, down, behind in asked(path):
        seen = [sentence for cell in down for sentence in visible(cell)]
        seen += [sentence for cell in [*up, *behind] for sentence in visible(cell, site=True)]
        telling = {one for one in seen if tells(choice, one.text)}
        yield choice.key, {one for one in telling if (choice.key, one.cell) not in OTHERWISE}, {o.cell for o in telling}


@each("path", LESSONS)
def test_no_sentence_around_a_question_states_its_answer(path):
    found = {key: telling for key, telling, _ in told(path) if telling}
    assert not found, "say it in `because`, or in <details>"


@each("path", LESSONS)
def test_what_is_claimed_below_a_question_is_folded(path):
    cells = [cell for _, _, down, _ in asked(path) for cell in down if cell.cell_type == "code" and not folded(cell)]
    assert not {cell.id: claims(cell) for cell in cells if claims(cell)}


@each("path", LESSONS)
def test_a_folded_cell_begins_with_a_comment(path):
    """JupyterLab shows the first line of what is folded."""
    cells = [cell for cell in read(path).cells if folded(cell)]
    assert not [cell.id for cell in cells if not cell.source.startswith("# ")]


def test_each_sentence_that_means_something_else_still_stands_there():
    seen = {(key, cell) for path in LESSONS for key, _, cells in told(path) for cell in cells}
    assert not OTHERWISE.keys() - seen


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("00/step-end", "The step takes 21 units, and the bubble is large.", True),
        ("00/step-end", "assert plan.makespan == 21", True),
        ("00/step-end", "The forwards are over after 7 units.", False),
        ("00/step-end", "After 15 units device 3 is done, not after 21.", True),
        ("05/raise-M", "A little more than half is left.", True),
        ("09/v-shape", "The loss stands on device 0.", True),
        ("09/v-shape", "The hatching ends at 0.", False),
        ("01/traffic", "The same megabytes as above, in four times as many messages.", True),
        ("01/traffic", "Messages are sent at each boundary.", False),
        ("07/counted", "Every batch is counted twice.", True),
        ("08/four-devices", "The model fits on one device, so four replicas of the whole model are fastest.", True),
    ],
)
def test_a_sentence_tells_by_its_numbers_or_its_words(key, text, expected):
    assert tells(question.find(key), text) == expected
