"""How `cut` is called, and what its stages run: layers only note that they are called.

Nothing is computed here until the pipeline engine trains with the learner's stages.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple, TypeAlias

from gpipe_edu.base.words import plural, with_article
from gpipe_edu.judge.guest.forms import gather
from gpipe_edu.judge.guest.networks import Array, Item, asks_of, build_network, modes_of
from gpipe_edu.reference.twin import as_arrays

Rows: TypeAlias = list[list[str]]
"""The layers that each stage runs."""


class CutQuestion(NamedTuple):
    """A network to be cut, one letter a layer; equal letters are one layer in several places.

    names: of the layers in the network, a letter each, in place of numbers. frozen: letters of layers in evaluation
    mode, whose weights ask for no gradients. training: instead of letters, a network and a batch, for which the stages
    are trained.
    """

    balance: list[int]
    letters: str = ""
    names: str = ""
    frozen: str = ""
    training: tuple[list[Item], int, Array, Array] | None = None


class CutAnswer(NamedTuple):
    """What each stage runs; then the network and the balance afterwards.

    modules: whether all stages are modules. layers: how many the network has. whole: whether it has its own, and its
    attributes, and no others.
    same_modes: whether each layer is in the mode that it had. same_asks: whether the same weights ask for gradients.
    """

    rows: Rows
    modules: bool
    layers: int
    whole: bool
    same_modes: bool
    same_asks: bool
    balance: list[int]


def perform(cut: Any, **given: Any) -> CutAnswer | dict[str, str] | list[Array | None]:
    """The answer to a `CutQuestion`; the gradients, if it asks for training."""
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
    names = asked.names or map(str, range(len(places)))
    net, balance = nn.Sequential(OrderedDict(zip(names, places, strict=True))), list(asked.balance)
    for letter in asked.frozen:
        layers[letter].eval().requires_grad_(False)
    modes, asks, attributes = modes_of(net), asks_of(net), set(vars(net))
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
    same_layers = len(net) == len(places) and all(a is b for a, b in zip(net, places, strict=True))
    return CutAnswer(
        rows=rows,
        modules=all(isinstance(stage, nn.Module) for stage in stages),
        layers=len(net),
        whole=same_layers and set(vars(net)) == attributes,
        same_modes=modes_of(net) == modes,
        same_asks=asks_of(net) == asks,
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
