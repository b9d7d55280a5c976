"""Random numbers that do not depend on which thread comes first, and that a recompute draws again.

PyTorch has one generator per device, shared by all threads. So every micro-batch has a stream of random numbers of its
own on every stage: while an op runs there, each PyTorch function that draws is caught, and the generator is in the
stream's state for just that one draw. Stages that draw run at the same time, and a recompute starts its stream anew.

Catching costs some 10 us per PyTorch function. Layers of torch.nn that never draw are known, and run without.

Known limits: what draws without PyTorch (NumPy, say) is not caught, nor are draws in a backward, such as those of a
layer that uses torch.utils.checkpoint itself.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

_lock = threading.Lock()
_local = threading.local()

_DRAWING = (
    nn.modules.dropout._DropoutNd,
    nn.RReLU,
    nn.FractionalMaxPool2d,
    nn.FractionalMaxPool3d,
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)


class Randomness:
    """The random numbers of one step. `torch.manual_seed` rules them; a step that draws none leaves no trace.

    stages: the layers of each; head: what computes the loss from the last stage's output, if anything does.
    """

    def __init__(self, stages: Sequence[nn.Module], head: Callable[..., Any] | None) -> None:
        # Inside an op of another pipeline that op's stream rules, and a recompute of the op finds it as it was.
        outer: Stream | None = getattr(_local, "stream", None)
        state = outer.state() if outer is not None else torch.get_rng_state()
        self._seed = int.from_bytes(hashlib.blake2b(state.numpy().tobytes(), digest_size=7).digest(), "big")
        self._layers_may_draw = [any(map(may_draw, layers.modules())) for layers in stages]
        self._head_may_draw = head is not None and may_draw(head)
        self.drew = False

    def of(self, micro_batch: int, stage: int, device: torch.device) -> tuple[AbstractContextManager[Any], ...]:
        """To be put around a forward or recompute of the layers, and around the loss after them."""
        if not (self._head_may_draw or self._layers_may_draw[stage]):
            return nullcontext(), nullcontext()
        # A large odd multiplier keeps the seeds of neighbours apart; manual_seed takes 64 bits.
        seed = (self._seed + 0x9E3779B97F4A7C15 * (1 + (micro_batch << 20) + stage)) % 2**63
        stream = Stream(self, seed, device)
        return (
            stream if self._layers_may_draw[stage] else nullcontext(),
            stream if self._head_may_draw else nullcontext(),
        )

    def finish(self) -> None:
        """After a step that drew: move the generator on, so that the next step draws other numbers."""
        if self.drew:
            torch.randint(2, ())


class Stream(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The random numbers of one micro-batch on one stage, for the thread that enters it."""

    def __init__(self, owner: Randomness, seed: int, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._owner = owner
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[device.index])
        self._seed = seed
        self._states: list[torch.Tensor] | None = None  # None: nothing drawn yet

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        self._owner.drew = True
        return self._swapped_in(lambda: func(*args, **(kwargs or {})))

    def state(self) -> torch.Tensor:
        """Where the stream stands now."""
        at: torch.Tensor = self._swapped_in(torch.default_generator.get_state)
        return at

    def _swapped_in(self, work: Callable[[], Any]) -> Any:
        with _lock:
            before = [generator.get_state() for generator in self._generators]
            try:
                if self._states is None:
                    for generator in self._generators:
                        generator.manual_seed(self._seed)
                else:
                    _restore(self._generators, self._states)
                result = work()
                self._states = [generator.get_state() for generator in self._generators]
                return result
            finally:
                _restore(self._generators, before)

    def __enter__(self) -> Stream:
        self._outer = getattr(_local, "stream", None)
        _local.stream = self
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        _local.stream = self._outer


def may_draw(what: object) -> bool:
    """False only for what never draws random numbers: plain layers, losses and functions of torch.nn."""
    if isinstance(what, nn.Module):
        own = "forward" in what.__dict__ or what._forward_hooks or what._forward_pre_hooks
        plain = type(what).__module__.startswith("torch.nn.modules.") and not own
        return not plain or isinstance(what, _DRAWING)
    name = getattr(what, "__name__", "")
    return getattr(what, "__module__", "") != "torch.nn.functional" or not name.endswith(("loss", "cross_entropy"))


def _restore(generators: Sequence[torch.Generator], states: Sequence[torch.Tensor]) -> None:
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
