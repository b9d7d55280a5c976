"""How `MyGPipe` is built and called: what is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gpipe_edu.judge.guest.networks import Array, Item

HIDDEN: Final = {"gpipe_edu.pytorch.GPipe": "MyGPipe"}


DEFAULT: Final = "the default"
"""For `checkpoint`: it is not given."""


class PipelineQuestion(NamedTuple):
    """A pipeline that is built of `items`, and the mini-batches that it gets one after another.

    trains: in training mode. graph: with a backward, which is then run. rate: of an optimizer that steps after every
    mini-batch; without one, gradients of all mini-batches add up. trains_x: the batch wants a gradient, too. names: of
    the layers, a letter each. shared: all Tanhs are one layer. still: the network is in evaluation mode, and its first
    layer frozen, before the pipeline is built.
    """

    items: list[Item]
    balance: list[int]
    M: int
    checkpoint: str
    batches: Sequence[tuple[Array, Array]] = ()
    trains: bool = True
    graph: bool = True
    rate: float = 0.0
    trains_x: bool = False
    names: str = ""
    shared: bool = False
    still: bool = False


class StepAnswer(NamedTuple):
    """What came of one mini-batch, and how many activations are still in memory.

    bad: the type of an output that is not a tensor. several: how many items it has, if it is a list or tuple. changed:
    whether the mini-batch is not as it was.
    """

    grads: list[Array | None]
    held: int
    bad: str = ""
    several: int = 0
    output: Any = None
    has_graph: bool = False
    dx: Array | None = None
    changed: bool = False
    grad_mode_kept: bool = True


class PipelineAnswer(NamedTuple):
    """What came of a pipeline. weights: the places of its parameters among those of net, -1 for others. balance: as it
    is afterwards. same_net: whether building it kept the modes of net's layers and which weights ask for gradients.
    """

    weights: list[int]
    keys: list[str]
    own_keys: list[str]
    balance: list[int]
    same_net: bool
    steps: list[StepAnswer]


def perform(MyGPipe: Any, **given: Any) -> PipelineAnswer | dict[str, str]:
    """See `perform_watched`, which is loaded where torch is."""
    from .perform_watched import perform

    return perform(MyGPipe, **given)
