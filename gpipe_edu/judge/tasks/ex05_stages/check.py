"""Are these the stages of a network, made of its own layers?

Layers only note that they are called; then the pipeline engine trains with the learner's stages.
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from random import Random

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.base.words import off_by, plural
from gpipe_edu.judge.case import Exam, Sign, Signs
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.networks import draw_digit_batches, gradients, items_of
from gpipe_edu.judge.tasks.ex05_stages.perform import CutAnswer, CutQuestion, Rows


class CutTask(CutQuestion):
    """A question, and its answer."""

    __slots__ = ()

    @property
    def rows(self) -> Rows:
        """What each stage is to run."""
        return [list(self.letters[a:b].lower()) for a, b in pairwise([0, *accumulate(self.balance)])]

    @property
    def has_blocks(self) -> bool:
        """Whether some layers are blocks."""
        return self.letters != self.letters.lower()


def examine(exam: Exam, rng: Random) -> Success:
    """Uneven cuts, another net, a layer in several places, blocks, names; what has to be refused; then the digits."""
    for letters, balance in (
        ("abcdef", [3, 1, 2]),
        ("abcdefg", [1, 4, 2]),
        ("abc", [3]),
        ("aBcDe", [2, 3]),
        ("atbtct", [2, 3, 1]),
        ("abcdefghijkl", [4, 5, 3]),
    ):
        _judge(exam, CutTask(balance, letters))
    with exam.blame_on("remembers"):
        _judge(exam, CutTask([3, 1, 2], "uvwxyz"), ", another net than before")
    with exam.blame_on("by-name"):
        _judge(exam, CutTask([2, 1, 2], "abcde", names="poems"), " that are called p, o, e, m and s")
    _judge(exam, CutTask([2, 1, 2], "abcde", frozen="bd"), ", two of them frozen and in evaluation mode")
    for _ in range(5):
        balance = [rng.randint(1, 4) for _ in range(rng.randint(1, 5))]
        _judge(exam, CutTask(balance, "abcdefghijklmnopqrstuvwxyz"[: sum(balance)]))
    for slip, balance in (
        ("too-few-layers", [2, 2]),
        ("too-many-layers", [3, 3]),
        ("empty-stage", [5, 0]),
        ("empty-stage", [6, -1]),
        ("too-few-layers", []),
    ):
        case = exam.case(f"cut(net, {balance}), net with 5 layers")
        case.refuses(Sign(slip), lambda _: "no error", balance=balance, letters="abcde")
    return _digits(exam, rng)


def _judge(exam: Exam, asked: CutTask, how: str = "") -> None:
    """Judge a cut. how: what else the call says of the network."""
    several = asked.letters.count("t") > 1
    where = ", one of them in three places" if several else how
    case = exam.case(f"cut(net, {asked.balance}), net with {len(asked.letters)} layers{where}")
    slip = "repeated-not-counted" if several else "block" if asked.has_blocks else ""
    answer = case.ask_for(CutAnswer, asked, dict.fromkeys(("ValueError", "AssertionError"), slip) if slip else None)
    case.expected, case.came = _write_rows(asked.rows), _write_rows(answer.rows)
    if answer.rows != asked.rows:
        case.judge(_about_rows(asked, answer.rows))
    case.judge(_about_the_rest(asked, answer))


def _about_rows(asked: CutTask, rows: Rows) -> Signs:
    """For stages that run other layers than they should."""
    expected = asked.rows
    flat, everything = list(chain(*rows)), list(chain(*expected))
    yield Sign("block", asked.has_blocks)
    yield Sign("copied", any(name.startswith("copy") for name in flat))
    if flat == everything:
        yield Sign("empty-rows", [] in rows)
        yield Sign("other-number", len(rows) != len(expected), f"{len(expected)} stages", f"{len(rows)} stages")
        sizes = [len(row) for row in rows]
        yield Sign("other-order", sorted(sizes) == sorted(asked.balance), str(asked.balance), str(sizes))
        yield Sign("other-sizes")
    yield Sign("places", rows in _read_as_places(asked))
    yield Sign("backwards", list(chain(*rows[::-1])) == everything)
    yield Sign("repeated-layer", len(set(everything)) < len(everything) and set(flat) == set(everything))
    yield Sign("overlap", len(flat) > len(everything))
    yield Sign("lost", len(flat) < len(everything), f"{len(everything)} layers in all", f"{len(flat)}")
    yield Sign("other-layers")


def _read_as_places(asked: CutTask) -> list[Rows]:
    """What stages run if the counts are taken for places of cuts: with the first layers, with the last, or both."""
    places, layers = [0, *asked.balance], asked.letters.lower()
    found = [[list(layers[a:b]) for a, b in pairwise(ends)] for ends in (places, [*places, len(layers)], places[1:])]
    return [rows for rows in found if rows != asked.rows]


def _about_the_rest(asked: CutTask, answer: CutAnswer) -> Signs:
    """What else a caller relies on."""
    yield Sign("not-a-module", not answer.modules)
    left, there = len(asked.letters), answer.layers
    yield Sign("net-emptied", there < left, f"{plural(left, 'layer')} in net, as before", str(there))
    yield Sign("net-changed", not answer.whole)
    yield Sign("layer-mode", bool(asked.frozen) and not answer.same_modes)
    yield Sign("training-changed", not answer.same_modes, "training=True", "training=False")
    yield Sign("unfrozen", not answer.same_asks)
    yield Sign("balance-changed", answer.balance != asked.balance, str(asked.balance), str(answer.balance))


def _write_rows(rows: Rows) -> str:
    return " | ".join(", ".join(row) for row in rows)


def _digits(exam: Exam, rng: Random) -> Success:
    balance = [3, 2, 2]
    layers = ref.mlp([64, 24, 24, 24, 10], activation="tanh", seed=rng.randrange(1000))
    ((x, y),) = draw_digit_batches(rng, 1, 50)
    case = exam.case("GPipe with your stages, 50 digits", "the gradients of one device")
    found = case.ask(balance=balance, training=(items_of(layers), 4, x, y))
    error = ref.gradient_difference(found, gradients(layers, x, y))
    came = off_by(error, "none for some weights, or no numbers")
    case.judge([Sign("other-gradient", not error < 1e-9, came=came)])
    return exam.success(Chart("three stages, four micro-batches", str(gpipe(3, 4))), error=error)
