"""Are these the stages of a network, made of its own layers?

Layers only note who calls them; nothing is computed here until the pipeline engine trains with the learner's stages.
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from random import Random
from typing import Any, NamedTuple, TypeAlias

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.exercises.case import Exam, Sign, Signs
from gpipe_edu.exercises.forms import gather
from gpipe_edu.exercises.networks import Array, Item, build_network, draw_digit_batches, gradients, items_of
from gpipe_edu.reference.twin import as_arrays
from gpipe_edu.sandbox.findings import Chart, Success
from gpipe_edu.words import percent, plural, with_article

Rows: TypeAlias = list[list[str]]
"""The layers that each stage runs."""


class CutQuestion(NamedTuple):
    """A network to be cut, one letter a layer; equal letters are one layer in several places.

    training: instead of letters, a network and a batch, for which the stages are trained.
    """

    balance: list[int]
    letters: str = ""
    training: tuple[list[Item], int, Array, Array] | None = None

    @property
    def rows(self) -> Rows:
        """What each stage is to run."""
        return [list(self.letters[a:b].lower()) for a, b in pairwise([0, *accumulate(self.balance)])]


class CutAnswer(NamedTuple):
    """What each stage runs; then the network and the balance afterwards.

    modules: whether all stages are modules. whole: whether the network has its layers. training: whether it is in
    training mode.
    """

    rows: Rows
    modules: bool
    whole: bool
    training: bool
    balance: list[int]


def perform(cut: Any, **given: Any) -> CutAnswer | dict[str, str] | list[Array | None]:
    """The answer to a `CutQuestion`; the gradients, if it is one of training."""
    import torch
    from torch import nn

    asked = CutQuestion(**given)
    if asked.training is not None:
        return _train(cut, asked.balance, *asked.training)
    calls: list[str] = []

    class Layer(nn.Module):
        def __init__(self, letter: str) -> None:
            super().__init__()
            self.letter, self.weight = letter, nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(self.letter if self is layers.get(self.letter) else "copy of " + self.letter)
            return x * self.weight

    layers: dict[str, Any] = {letter: Layer(letter) for letter in asked.letters}
    # A block of two layers is one layer of the network.
    blocks = {letter: nn.Sequential(layers[letter], nn.Identity()) for letter in layers if letter.isupper()}
    places = [blocks.get(letter, layers[letter]) for letter in asked.letters]
    net, balance = nn.Sequential(*places), list(asked.balance)
    stages, rows = gather(cut(net, balance)), []
    if not isinstance(stages, list):
        expected = f"a list of {plural(len(asked.balance), 'stage')}"
        return {"slip": "not-a-list", "expected": expected, "came": with_article(type(stages).__name__)}
    for stage in stages:
        if not _runs(stage):
            came = with_article(type(stage).__name__)
            return {"slip": "not-callable", "expected": "an nn.Sequential", "came": came}
        calls.clear()
        stage(torch.ones(2, 3))
        rows.append([letter.lower() for letter in calls])
    return CutAnswer(
        rows=rows,
        modules=all(isinstance(stage, nn.Module) for stage in stages),
        whole=len(net) == len(places) and all(a is b for a, b in zip(net, places, strict=True)),
        training=all(module.training for module in net.modules()),
        balance=balance,
    )


def _runs(stage: Any) -> bool:
    """Whether it can be called. An `nn.ModuleList` has no forward but PyTorch's, which only refuses."""
    from torch import nn

    forward = getattr(stage, "forward", None)
    return callable(stage) and getattr(forward, "__func__", forward) is not nn.Module.forward


def _train(cut: Any, balance: list[int], items: list[Item], M: int, x: Array, y: Array) -> list[Array | None]:
    """Gradients of a network whose stages were trained by the pipeline engine."""
    import torch
    from torch import nn

    from gpipe_edu.pytorch import GPipe

    net = build_network(items)
    stages = nn.Sequential(*cut(net, list(balance)))
    pipe = GPipe(stages, len(balance), M, balance=[1] * len(balance), devices=["cpu"])
    pipe.step(torch.from_numpy(x), torch.from_numpy(y), nn.CrossEntropyLoss())
    return as_arrays(weight.grad for weight in net.parameters())


def examine(exam: Exam, rng: Random) -> Success:
    """Uneven cuts, a layer in several places, blocks; what has to be refused; then the engine on digits."""
    for letters, balance in (
        ("abcde", [2, 1, 2]),
        ("abcdefg", [1, 4, 2]),
        ("abc", [3]),
        ("aBcDe", [2, 3]),
        ("atbtct", [2, 3, 1]),
    ):
        _judge(exam, letters, balance)
    for _ in range(5):
        balance = [rng.randint(1, 4) for _ in range(rng.randint(1, 5))]
        _judge(exam, "abcdefghijklmnopqrstuvwxyz"[: sum(balance)], balance)
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


def _judge(exam: Exam, letters: str, balance: list[int]) -> None:
    several = letters.count("t") > 1
    where = ", one of them in three places" if several else ""
    case = exam.case(f"cut(net, {balance}), net with {len(letters)} layers{where}")
    asked = CutQuestion(balance, letters)
    answer = case.ask_for(CutAnswer, asked, {"ValueError": "repeated-not-counted"} if several else None)
    case.expected, case.came = _write_rows(asked.rows), _write_rows(answer.rows)
    if answer.rows != asked.rows:
        case.judge(_about_rows(asked, answer.rows))
    case.judge(_about_the_rest(asked, answer))


def _about_rows(asked: CutQuestion, rows: Rows) -> Signs:
    """For stages that run other layers than they should."""
    expected = asked.rows
    flat, everything = list(chain(*rows)), list(chain(*expected))
    yield Sign("block", asked.letters != asked.letters.lower())
    yield Sign("copied", any(name.startswith("copy") for name in flat))
    if flat == everything:
        yield Sign("empty-rows", [] in rows)
        yield Sign("other-number", len(rows) != len(expected), f"{len(expected)} stages", f"{len(rows)} stages")
        yield Sign("other-sizes")
    yield Sign("backwards", list(chain(*rows[::-1])) == everything)
    yield Sign("repeated-layer", len(set(everything)) < len(everything) and set(flat) == set(everything))
    yield Sign("overlap", len(flat) > len(everything))
    yield Sign("lost", len(flat) < len(everything), f"{len(everything)} layers in all", f"{len(flat)}")
    yield Sign("other-layers")


def _about_the_rest(asked: CutQuestion, answer: CutAnswer) -> Signs:
    """What else a caller relies on."""
    yield Sign("not-a-module", not answer.modules)
    yield Sign("net-changed", not answer.whole)
    yield Sign("training-changed", not answer.training, "training=True", "training=False")
    yield Sign("balance-changed", answer.balance != asked.balance, str(asked.balance), str(answer.balance))


def _write_rows(rows: Rows) -> str:
    return " | ".join(" ".join(row) for row in rows)


def _digits(exam: Exam, rng: Random) -> Success:
    balance = [3, 2, 2]
    layers = ref.mlp([64, 24, 24, 24, 10], activation="tanh", seed=rng.randrange(1000))
    ((x, y),) = draw_digit_batches(rng, 1, 50)
    case = exam.case("GPipe with your stages, 50 digits", "the gradients of one device")
    found = case.ask(balance=balance, training=(items_of(layers), 4, x, y))
    error = ref.gradient_difference(found, gradients(layers, x, y))
    case.judge([Sign("other-gradient", not error < 1e-9, came=f"off by {percent(error)}")])
    return exam.success(Chart("three stages, four micro-batches", str(gpipe(3, 4))), error=error)
