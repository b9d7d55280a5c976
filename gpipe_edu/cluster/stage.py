"""One stage on its rank: PyTorch's, which also recomputes where the schedule says so, and notes when its ops run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.utils.checkpoint import checkpoint

from gpipe_edu.pytorch.batchnorm import BatchNorms
from gpipe_edu.pytorch.skip import Way
from gpipe_edu.pytorch.split_backward import backward, input_gradient
from gpipe_edu.pytorch.stage import MAIN
from gpipe_edu.pytorch.values import differentiable, plain
from gpipe_edu.schedule import Op

from .boundaries import Boundary, Held, StageLayers, to_neighbour
from .far_skips import FarSkips, far
from .shared_clock import SharedClock


class PackedStage(nn.Module):
    """A stage as PyTorch's engine calls it: from tensors to tensors. before, behind: what crosses the boundaries there.

    takes, gives: what comes from the previous stage, and goes to the next one. The tensors of skips that go further
    follow these, in the order of `FarSkips`.
    """

    def __init__(self, stage: StageLayers, before: Boundary, behind: Boundary, ways: Sequence[Way]) -> None:
        super().__init__()
        self.stage, k = stage, stage.index
        self.takes, self.gives = to_neighbour(before, k - 1, ways), to_neighbour(behind, k, ways)
        taken = [way.name for way in far(ways) if way.target == k]
        given = [way.name for way in far(ways) if way.source == k]
        self._all_taken = before.only([*self.takes.names(), *taken])
        self._all_given = behind.only([*self.gives.names(), *given])

    def forward(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """What leaves, given what arrived. Raises ValueError for anything but what the next stage expects."""
        values, expected = self.stage(self._all_taken.unpack(parts)), self._all_given
        found = Boundary.of({name: values[name] for name in expected.names()})
        if found != expected:
            raise ValueError(
                f"stage {self.stage.index} gives {found} now, and gave {expected} when it was tried on other numbers; "
                "a layer must always give tensors of the same number, types, order and "
                "shapes, in training as in evaluation, or a pipeline for each"
            )
        return expected.pack(values)


class Stage(PipelineStage):
    """`packed` as stage `index` of `stages`. sizes: the samples of each micro-batch.

    What goes in and out is told to PyTorch, so that it need not run the stage once more to find shapes (BatchNorm would
    count that run). recomputed: the micro-batches whose activations are not kept. skips: those that PyTorch does not
    send. clock: notes when each op runs.
    """

    def __init__(
        self,
        packed: PackedStage,
        index: int,
        stages: int,
        sizes: Sequence[int],
        device: torch.device,
        group: Any,
        recomputed: Collection[int],
        skips: FarSkips,
        clock: SharedClock,
    ) -> None:
        # PyTorch makes buffers like these for all micro-batches at once. So these hold nothing: memory is allocated
        # when something is to be received, and freed when that has been read.
        takes, gives = packed.takes.empty(0, device, grad=index > 0), packed.gives.empty(0, device, grad=True)
        super().__init__(packed, index, stages, device, input_args=takes, output_args=gives, group=group)
        self._packed, self.sizes = packed, sizes
        self._runtime_validate = False  # which TORCH_DISTRIBUTED_DEBUG=DETAIL asks for, and which knows one size only
        self._recomputed, self._skips, self._clock = recomputed, skips, clock
        self._batch_norms = BatchNorms(packed, deferred=False)
        self._recompute_now = False
        self._micro_batch = 0
        """The micro-batch of the op that runs."""
        self._taken: Sequence[Tensor] = ()
        """What far skips have brought for that op."""
        self._stashed: Sequence[Tensor] = ()
        """What that op has made for far skips."""
        self._back: Sequence[Tensor | None] = ()
        """The gradients of what has come."""
        self._given: dict[int, list[tuple[Tensor, Tensor]]] = {}
        """For each micro-batch what far skips have carried away, with the gradients that have come back."""

    def output(self, parts: Sequence[Tensor]) -> Held:
        """The value that the layers made."""
        return self._packed.gives.unpack(parts)[MAIN]

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[Any]:
        """PyTorch's, into buffers of the micro-batch's own size."""
        _resize(self.args_recv_info[fwd_chunk_id], self.sizes[fwd_chunk_id])
        return super().get_fwd_recv_ops(fwd_chunk_id)

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[Any]:
        """PyTorch's, into buffers of the micro-batch's own size."""
        _resize(self.grad_recv_info[bwd_chunk_id], self.sizes[bwd_chunk_id])
        return super().get_bwd_recv_ops(bwd_chunk_id)

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """PyTorch's, noted as F."""
        self._micro_batch, self._recompute_now = fwd_chunk_id, fwd_chunk_id in self._recomputed
        self._taken = self._skips.take(self.stage_index, fwd_chunk_id)
        with self._clock.op(Op("F", fwd_chunk_id, self.stage_index)):
            output = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        _resize(self.args_recv_info[fwd_chunk_id], 0)  # what the backward needs of it is kept for that
        self._skips.give(self.stage_index, fwd_chunk_id, self._stashed)
        self._stashed = self._taken = ()
        return output

    def forward_maybe_with_nosync(self, *args: Any, **kwargs: Any) -> Any:
        """The layers, keeping only their input for a micro-batch that is recomputed."""
        given, number = self._run(*args, *self._taken), len(self._packed.gives.parts)
        self._stashed = given[number:]
        return given[:number]

    def _run(self, *args: Tensor) -> tuple[Tensor, ...]:
        if self._recompute_now and torch.is_grad_enabled():
            seen = self._batch_norms.snapshot()

            def around() -> tuple[Any, Any]:
                return nullcontext(), self._batch_norms.forward(False, seen)  # which does not count it twice

            def layers(*inputs: Tensor) -> Any:
                # What a layer hooks to its input, it hooks again when it is recomputed: to another tensor then.
                return self.submod(*(one.view_as(one) for one in inputs))

            return checkpoint(layers, *args, use_reentrant=False, context_fn=around)  # type: ignore[no-any-return]
        given: tuple[Tensor, ...] = self.submod(*args)
        if self.is_last:
            # PyTorch detaches the output after I, in place, unless it is a view; and W may begin at the loss, which
            # needs it: where a weight has two ways to the loss, the loss has a weight, or no input requires a gradient.
            given = tuple(part.view_as(part) for part in given)
        return given

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """PyTorch's, noted as B, C or I."""
        kind = "I" if not full_backward else "C" if bwd_chunk_id in self._recomputed else "B"
        self._micro_batch = bwd_chunk_id
        self._given[bwd_chunk_id] = self._skips.given(self.stage_index, bwd_chunk_id)
        with self._clock.op(Op(kind, bwd_chunk_id, self.stage_index)):
            super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
        _resize(self.grad_recv_info[bwd_chunk_id], 0)
        self._skips.give_back(self.stage_index, bwd_chunk_id, self._back)
        self._back = ()

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """PyTorch's, noted as W."""
        self._micro_batch = bwd_chunk_id
        with self._clock.op(Op("W", bwd_chunk_id, self.stage_index)):
            super().backward_weight_one_chunk(bwd_chunk_id, *args, **kwargs)

    def backward_maybe_with_nosync(
        self, backward_type: str, bwd_kwargs: dict[str, Any], last_backward: bool = False
    ) -> tuple[tuple[Tensor | None, ...], Any]:
        """The backward of the other engine, whole or in two halves: PyTorch's second half leaves out weights that are
        not on the way from the stage's output to its input."""
        if backward_type == "weight":
            bwd_kwargs["param_groups"]()
            return (), None
        outputs, given = bwd_kwargs["stage_output"], bwd_kwargs["output_grads"]
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        given = (None,) * len(outputs) if given is None else given
        # The loss, for which no gradient is given, or what the next stage sent one for.
        pairs = [
            (root, gradient)
            for root, gradient in zip(outputs, given, strict=True)
            if root.requires_grad and (self.is_last or gradient is not None)
        ]
        pairs += [pair for pair in self._given.pop(self._micro_batch) if pair[0].requires_grad]
        roots, gradients = [root for root, _ in pairs], [gradient for _, gradient in pairs]
        inputs, finish = bwd_kwargs["input_values"], None
        number = len(inputs)
        inputs = [*inputs, *self._skips.taken(self.stage_index, self._micro_batch)]
        if backward_type == "input":
            finish = input_gradient(roots, gradients, inputs) if roots else _nothing
        elif roots:
            backward(roots, gradients)
        # Zeros where a stage does not use what it got: PyTorch would send as many as for the largest micro-batch.
        found = tuple(
            None if not one.requires_grad else torch.zeros_like(one) if one.grad is None else plain(one.grad)
            for one in inputs
        )
        for one in inputs:
            one.grad = None  # so that its memory goes with the message
        self._back = found[number:]
        return found[:number], finish

    def _create_grad_send_info(self, args_recv_info: Any) -> list[int | None]:
        """PyTorch's, but nowhere for what has no gradient: 2.12 sends one for each tensor that came."""
        to = super()._create_grad_send_info(args_recv_info)
        return [stage if differentiable(info.buffer) else None for stage, info in zip(to, args_recv_info, strict=True)]

    def _get_init_p2p_neighbors_ops(self) -> list[Any]:
        """PyTorch's greetings to its neighbours, without those to its own rank, which gloo can't send."""
        return [op for op in super()._get_init_p2p_neighbors_ops() if op.group_peer != self.group_rank]


def _resize(received: Sequence[Any], samples: int) -> None:
    """Give what is received new, uninitialized buffers for so many samples; none where none is received."""
    for one in received:
        buffer: Tensor | None = getattr(one, "buffer", None)
        if buffer is not None:
            one.buffer = buffer.new_empty((samples, *buffer.shape[1:]))


def _nothing() -> None:
    """The second half of a backward for which there was nothing to do."""
