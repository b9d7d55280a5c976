"""Random numbers that do not depend on which thread comes first, and that a recompute draws again.

PyTorch has one generator per device, shared by all threads. So every micro-batch has a stream of random numbers of its
own on every stage: while an op runs there, each PyTorch function that draws is caught, and the generator is in the
stream's state for just that one draw. Stages that draw run at the same time, and a recompute starts its stream anew.

Catching costs some 10 us per PyTorch function. Layers of torch.nn that never draw are known, and run without.

A layer may also handle random state itself. While an op runs, `torch.manual_seed`, `get_rng_state` and `set_rng_state`
mean the op's stream, so `fork_rng` with a seed and torch.utils.checkpoint inside a layer do what they do on one device.
And what a generator of the layer's own gave in a forward, it gives again in the recompute.

Known limits: what draws without PyTorch (NumPy, say) is not caught, nor are draws in a backward, other than those of a
layer that uses torch.utils.checkpoint.
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

from gpipe_edu.schedule.needs import Cell

from . import torch_private

_lock = threading.Lock()

_DRAWING = (
    torch_private.Dropout,
    nn.RReLU,
    nn.FractionalMaxPool2d,
    nn.FractionalMaxPool3d,
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)


class Randomness:
    """The random numbers of one step. `torch.manual_seed` determines them; a step that draws none leaves no trace.

    stages: the layers of each; head: what computes the loss from the last stage's output, if anything does.
    """

    def __init__(self, stages: Sequence[nn.Module], head: Callable[..., Any] | None) -> None:
        # Inside an op of another pipeline this is that op's stream, and a recompute of the op finds it as it was.
        state = torch.get_rng_state()
        self._seed = int.from_bytes(hashlib.blake2b(state.numpy().tobytes(), digest_size=7).digest(), "big")
        self._layers_may_draw = [any(map(may_draw, layers.modules())) for layers in stages]
        self._head_may_draw = head is not None and may_draw(head)
        self._own_draws: dict[Cell, list[torch.Tensor]] = {}
        self._handles_state: set[Cell] = set()
        self.drew = False

    def of(
        self, micro_batch: int, stage: int, device: torch.device, first: bool = True
    ) -> tuple[AbstractContextManager[Any], ...]:
        """To be put around a forward (`first`) or recompute of the layers, and around the loss after them."""
        if not (self._head_may_draw or self._layers_may_draw[stage]):
            return nullcontext(), nullcontext()
        draws = [] if first else self._own_draws.get((micro_batch, stage), [])
        if first:
            self._own_draws[micro_batch, stage] = draws
        stream = self._stream(micro_batch, stage, device, OwnGenerators(draws, first))
        return (
            stream if self._layers_may_draw[stage] else nullcontext(),
            stream if self._head_may_draw else nullcontext(),
        )

    def behind(self, micro_batch: int, stage: int, device: torch.device) -> AbstractContextManager[Any]:
        """To be put around a backward: a layer whose forward read the random state may draw from it there."""
        if (micro_batch, stage) not in self._handles_state:
            return nullcontext()
        return self._stream(micro_batch, stage, device, OwnGenerators([], True))

    def read(self, cell: Cell) -> None:
        """Note that the random state was read in an op of `cell`."""
        self._handles_state.add(cell)

    def _stream(self, micro_batch: int, stage: int, device: torch.device, own: OwnGenerators) -> Stream:
        # A large odd multiplier keeps the seeds of neighbours apart; manual_seed takes 64 bits.
        seed = (self._seed + 0x9E3779B97F4A7C15 * (1 + (micro_batch << 20) + stage)) % 2**63
        return Stream(self, (micro_batch, stage), seed, device, own)

    def finish(self) -> None:
        """After a step that drew: move the generator on, so that the next step draws other numbers."""
        if self.drew:
            torch.randint(2, (), device="cpu")  # the seed comes from the CPU, always


class OwnGenerators:
    """Generators that a layer brings along: `draws` are the states before each of a forward's draws, in order."""

    def __init__(self, draws: list[torch.Tensor], first: bool) -> None:
        self._draws, self._first, self._next = draws, first, 0

    def draw(self, generator: torch.Generator, work: Callable[[], Any]) -> Any:
        """`work` draws from `generator`; in a recompute the forward's numbers, and its state is then restored."""
        with _lock:
            now = generator.get_state()
            if self._first:
                self._draws.append(now)
                return work()
            if self._next < len(self._draws):
                generator.set_state(self._draws[self._next])
            self._next += 1
            try:
                return work()
            finally:
                generator.set_state(now)


class Stream(torch_private.TorchDispatchMode):  # type: ignore[misc]
    """The random numbers of one micro-batch on one stage, for the thread that enters it."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled layers draw by functions that come here, too."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Or PyTorch would import its compiler, for more than a second, at the first op.
        return False

    def __init__(self, owner: Randomness, cell: Cell, seed: int, device: torch.device, own: OwnGenerators) -> None:
        super().__init__()
        self._owner, self._cell, self._own = owner, cell, own
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            self._generators.append(real(torch.cuda.default_generators[device.index]))
        self._seed = seed
        self._states: list[torch.Tensor] | None = None  # None: nothing drawn yet

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Higher-order operators, flex_attention say, have no tags; what they call comes here too.
        if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
            return func(*args, **(kwargs or {}))
        own = (kwargs or {}).get("generator")
        if own is not None and own not in self._generators:
            return self._own.draw(own, lambda: func(*args, **(kwargs or {})))
        self._owner.drew = True
        return self._swap_in(lambda: func(*args, **(kwargs or {})))

    def handle(self, generator: torch.Generator, method: Callable[[], Any]) -> Any:
        """`method` of a default generator, called by a layer itself: it means this stream, if it is one of ours."""
        self._owner.read(self._cell)
        if generator in self._generators:
            return self._swap_in(method)
        with _lock:
            return method()

    def _swap_in(self, work: Callable[[], Any]) -> Any:
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
        _doors.open()
        # Not by TorchDispatchMode's own __enter__, which also tells all threads that a mode is active: torch.compile
        # then runs nothing compiled, and if threads enter and leave in turns, it never does again.
        torch_private.push_dispatch_mode(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        torch_private.pop_dispatch_mode(None)
        _doors.close()


class Door:
    """Stands in for a default generator: inside an op its methods mean the op's stream, elsewhere the generator."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.generator, name)
        if not callable(method):
            return method

        def call(*args: Any) -> Any:
            modes = torch_private.dispatch_modes()
            stream = next((mode for mode in reversed(modes) if isinstance(mode, Stream)), None)
            if stream is not None:
                return stream.handle(self.generator, lambda: method(*args))
            with _lock:  # or this could see a state that is swapped in for a draw
                return method(*args)

        return call


class _Doors:
    """PyTorch's functions that handle random state find the default generators under two names. While an op that may
    draw runs, these names lead to doors."""

    def __init__(self) -> None:
        self._open = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._names(Door)

    def close(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._names(real)

    def _names(self, change: Callable[[Any], Any]) -> None:
        names = vars(torch.random)
        names["default_generator"] = change(names["default_generator"])
        torch.cuda.default_generators = tuple(map(change, torch.cuda.default_generators))


_doors = _Doors()


def real(generator: Any) -> torch.Generator:
    """The generator behind a door."""
    found: torch.Generator = generator.generator if isinstance(generator, Door) else generator
    return found


def may_draw(what: object) -> bool:
    """False only for layers, losses and functions of torch.nn that are known never to draw random numbers."""
    if isinstance(what, nn.Module):
        own = "forward" in what.__dict__ or what._forward_hooks or what._forward_pre_hooks
        plain = type(what).__module__.startswith("torch.nn.modules.") and not own
        return not plain or isinstance(what, _DRAWING)
    name = getattr(what, "__name__", "")
    return getattr(what, "__module__", "") != "torch.nn.functional" or not name.endswith(("loss", "cross_entropy"))


def _restore(generators: Sequence[torch.Generator], states: Sequence[torch.Tensor]) -> None:
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
