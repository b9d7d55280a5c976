"""Exercise 05, first part: cutting a network into stages that are made of its own layers.

Layers only count who calls them; nothing is computed here until the pipeline engine trains with the learner's stages.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner, Traps
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits

from .wrapper_gradients import off, one_device

TASK: Final = Task(
    key="ex05/stages",
    function="cut",
    title="A network cut into stages",
    notebook="exercise_05_wrapper",
    seconds=20.0,
    hints=(
        "A slice of an `nn.Sequential`, such as `net[2:5]`, is an `nn.Sequential` again, with the same layers in it. "
        "So all you need is where each stage begins and where it ends.",
        "Walk through `balance` with a number that says where the next stage begins: it starts at 0 and grows by the "
        "count of each stage. Before that, make sure that no count is below 1 and that they add up to `len(net)`.",
        "`start = 0`; then for each `count` in `balance`: append `net[start : start + count]` to the list and add "
        "`count` to `start`. Raise ValueError first if `min(balance) < 1` or `sum(balance) != len(net)`; an empty "
        "balance has no minimum, so look at its sum first.",
    ),
)

_REFUSED: Final[Traps] = {
    "ValueError": (
        "repeated-not-counted",
        "A balance that fits was refused. One layer is in `net` in three places and counts three times; "
        "`named_children()` shows it only once, `len(net)` counts all places.",
    )
}

Array = np.ndarray[Any, Any]


def perform(cut: Any, kinds: list[str], balance: Any, M: int = 0, weights: Any = None, batch: Any = None) -> Any:
    """Cut a network, one letter a layer; equal letters are one layer in several places. Which layers each stage runs.

    With weights, the stages are those of a network for digits, and the pipeline engine trains with them.
    """
    import torch
    from torch import nn

    torch.set_num_threads(1)
    if weights is not None:
        return _train(cut, weights, balance, M, batch)
    calls: list[str] = []

    class Layer(nn.Module):
        def __init__(self, letter: str) -> None:
            super().__init__()
            self.letter, self.weight = letter, nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(self.letter if self is layers.get(self.letter) else "copy of " + self.letter)
            return x * self.weight

    layers: dict[str, Any] = {letter: Layer(letter) for letter in dict.fromkeys(kinds)}
    # A block of two layers is one layer of the network.
    blocks = {letter: nn.Sequential(layers[letter], nn.Identity()) for letter in layers if letter.isupper()}
    places = [blocks.get(letter, layers[letter]) for letter in kinds]
    net, given = nn.Sequential(*places), list(balance)
    stages = cut(net, given)
    if not hasattr(stages, "__iter__"):
        return {"bad": "not-a-list", "came": type(stages).__name__}
    stages, rows = list(stages), []
    for stage in stages:
        if not callable(stage):
            return {"bad": "not-callable", "came": type(stage).__name__}
        calls.clear()
        stage(torch.ones(2, 3))
        rows.append(list(calls))
    whole = [a is b for a, b in zip(net, places, strict=False)]
    modules = all(isinstance(stage, nn.Module) for stage in stages)
    return {
        "bad": "",
        "rows": rows,
        "modules": modules,
        "whole": len(net) == len(kinds) and all(whole),
        "balance": given,
        "training": all(module.training for module in net.modules()),
    }


def _train(cut: Any, weights: Any, balance: Any, M: int, batch: Any) -> Any:
    import torch
    from torch import nn

    from gpipe_edu.pytorch import GPipe

    from .wrapper_net import arrays, numbered, watched, without_numbers

    net, _ = watched(weights)
    stages = nn.Sequential(*cut(net, list(balance)))
    pipe = GPipe(stages, len(balance), M, balance=[1] * len(balance), devices=["cpu"])
    loss_fn = nn.CrossEntropyLoss()
    x, y = numbered(batch[0]), torch.from_numpy(batch[1])
    loss = pipe.step(x, y, lambda output, target: loss_fn(without_numbers(output), target))
    return {"loss": loss.item(), "grads": arrays([weight.grad for weight in net.parameters()])}


def examine(examiner: Examiner, rng: Random) -> Success:
    """Uneven cuts, a layer in two places, blocks; what has to be refused; then the engine on digits."""
    _one(examiner, "abcde", [2, 1, 2])
    _one(examiner, "abcdefg", [1, 4, 2])
    _one(examiner, "abc", [3])
    _one(examiner, "aBcDe", [2, 3])
    _one(examiner, "atbtct", [2, 3, 1])
    for _ in range(5):
        balance = [rng.randint(1, 4) for _ in range(rng.randint(1, 5))]
        _one(examiner, "abcdefghijklmnopqrstuvwxyz"[: sum(balance)], balance)
    for balance, slip, because in (
        ([2, 2], "too-few-layers", "Layers that no stage has would be skipped in silence, and nobody would notice."),
        (
            [3, 3],
            "too-many-layers",
            "A balance with more layers than `net` has is a slip of whoever wrote it: refuse it.",
        ),
        ([5, 0], "empty-stage", "A stage without layers is a device without work. Every count is at least 1."),
        ([6, -1], "empty-stage", "A stage can't have fewer than no layers. Every count is at least 1."),
        ([], "no-stages", "No stages at all: a balance has at least one."),
    ):
        call = f"cut(net, {balance}), net with 5 layers"
        examiner.refuses(call, slip, because, lambda _: "no error", kinds=list("abcde"), balance=balance)
    return _digits(examiner, rng)


def _one(examiner: Examiner, kinds: str, balance: list[int]) -> None:
    call = f"cut(net, {balance}), net with {len(kinds)} layers"
    bounds = [0, *accumulate(balance)]
    expected = [list(kinds[a:b].lower()) for a, b in pairwise(bounds)]
    call += ", one of them in three places" * (kinds.count("t") > 1)
    found = examiner.ask(call, _REFUSED if kinds.count("t") > 1 else None, kinds=list(kinds), balance=balance)

    def wrong(slip: str, because: str, wanted: str = _show(expected), came: str = "") -> Wrong:
        return Wrong(Finding(slip, because, call, wanted, came))

    if found["bad"] == "not-a-list":
        raise wrong("not-a-list", "The stages come as a list.", f"a list of {len(balance)} stages", found["came"])
    if found["bad"]:
        because = (
            "A stage has to be a module that can be called with a micro-batch. A plain list of layers can't: put it "
            "into an `nn.Sequential`."
        )
        raise wrong("not-callable", because, "an nn.Sequential", f"a {found['came']}")
    rows = [[name.lower() for name in row] for row in found["rows"]]
    if rows != expected and kinds != kinds.lower():
        because = (
            "Some layers of this `net` are blocks, an `nn.Sequential` in an `nn.Sequential`. A block is one layer, "
            "however many there are inside: it is not taken apart, and `len(net)` counts it once."
        )
        raise wrong("block", because, came=_show(rows))
    _judge_rows(rows, expected, wrong)
    if not found["modules"]:
        because = "A stage is an `nn.Module`, so that PyTorch knows its parameters and `train()` reaches its layers."
        raise wrong("not-a-module", because)
    if not found["whole"]:
        because = "`net` itself was changed: layers are missing from it now. Leave it as it is."
        raise wrong("net-changed", because)
    if not found["training"]:
        because = (
            "Layers of `net` were switched to evaluation: a stage shares them, so `eval()` on it reaches `net`, and "
            "dropout would never drop. When to train and when not is up to whoever calls `cut`."
        )
        raise wrong("training-changed", because, "training=True", "training=False")
    if found["balance"] != balance:
        because = "The balance was changed on the way. Whoever calls `cut` may need it again: count in a copy."
        raise wrong("balance-changed", because, str(balance), str(found["balance"]))


def _judge_rows(rows: list[list[str]], expected: list[list[str]], wrong: Blame) -> None:
    came = _show(rows)
    if rows == expected:
        return
    flat, everything = [name for row in rows for name in row], [name for row in expected for name in row]
    if any(name.startswith("copy") for name in flat):
        because = (
            "These are copies of the layers. Training a copy leaves `net` as it was, and both take up memory: a stage "
            "holds the very layers of `net`."
        )
        raise wrong("copied", because, came=came)
    if any(not row for row in rows) and flat == everything:
        raise wrong("empty-rows", "A stage has no layers: count where each begins again.", came=came)
    if flat == everything and len(rows) != len(expected):
        because = "There is one stage for each count in `balance`."
        raise wrong("other-number", because, f"{len(expected)} stages", f"{len(rows)} stages")
    if flat == everything:
        because = (
            "The stages have other sizes than `balance` says. It holds the layers of each stage, not of all alike."
        )
        raise wrong("other-sizes", because, came=came)
    if [name for row in reversed(rows) for name in row] == everything:
        raise wrong("backwards", "The stages come in the order of the forward: the first layers first.", came=came)
    if len(set(everything)) < len(everything) and set(flat) == set(everything):
        because = (
            "One layer is in `net` in three places, as an activation may be, and counts each time. `net.children()` "
            "shows it only once; slices and indices of `net` see all places."
        )
        raise wrong("repeated-layer", because, came=came)
    if len(flat) > len(everything):
        because = "A layer is in two stages, so it would run twice. Where one stage ends, the next one begins."
        raise wrong("overlap", because, came=came)
    if len(flat) < len(everything):
        because = "Some layers are in no stage, so they would be skipped."
        raise wrong("lost", because, f"{len(everything)} layers in all", f"{len(flat)}")
    raise wrong("other-layers", "The layers are not in the order that they have in `net`.", came=came)


def _show(rows: list[list[str]]) -> str:
    return " | ".join(" ".join(row) for row in rows)


def _digits(examiner: Examiner, rng: Random) -> Success:
    data, balance = digits(), [3, 2, 2]
    layers = ref.mlp([64, 24, 24, 24, 10], activation="tanh", seed=rng.randrange(1000))
    rows = np.random.default_rng(rng.randrange(2**32)).permutation(len(data.x_train))[:50]
    x, y = np.asarray(data.x_train[rows], dtype=float), np.asarray(data.y_train[rows])
    weights = [value.copy() for layer in layers for value in layer.params.values()]
    call = "GPipe with your stages, 50 digits"
    found = examiner.ask(call, kinds=[], balance=balance, M=4, weights=weights, batch=(x, y))
    truth = one_device(layers, x, y)
    error = off(found["grads"], truth.grads)
    if not error < 1e-9:
        because = "The pipeline engine, given your stages, gets other gradients than one device."
        raise Wrong(Finding("other-gradient", because, call, "those of one device", f"off by {error:.1%}"))
    words = (
        f"Then our pipeline engine took your three stages of 3, 2 and 2 layers and trained 50 handwritten digits with "
        f"them: gradients differ from those of one device by {error:.0e}. What it did with them, planned, is below."
    )
    return Success(words, (Chart("three stages, four micro-batches", str(gpipe(3, 4))),))
