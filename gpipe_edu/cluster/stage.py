"""One stage on its rank: PyTorch's, which also recomputes where the schedule says so, and notes when its ops run."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.utils.checkpoint import checkpoint

from gpipe_edu.pytorch.batchnorm import BatchNorms
from gpipe_edu.schedule import Op

from .shared_clock import SharedClock


class Stage(PipelineStage):
    """`layers` as stage `index` of `stages`.

    takes, gives: an example of what goes in and out, one micro-batch, so that PyTorch need not run the stage once more
    to find shapes (BatchNorm would count that run). recomputed: the micro-batches whose activations are not kept.
    clock: notes when each op runs.
    """

    def __init__(
        self,
        layers: nn.Module,
        index: int,
        stages: int,
        device: torch.device,
        takes: Tensor,
        gives: Tensor,
        group: Any,
        recomputed: Collection[int],
        clock: SharedClock,
    ) -> None:
        super().__init__(layers, index, stages, device, input_args=takes, output_args=gives, group=group)
        self._recomputed, self._clock = recomputed, clock
        self._batch_norms = BatchNorms(layers, deferred=False)
        self._recompute_now = False

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """PyTorch's, noted as F."""
        self._recompute_now = fwd_chunk_id in self._recomputed
        with self._clock.op(Op("F", fwd_chunk_id, self.stage_index)):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def forward_maybe_with_nosync(self, *args: Any, **kwargs: Any) -> Any:
        """The layers, keeping only their input for a micro-batch that is recomputed."""
        if self._recompute_now and torch.is_grad_enabled():
            seen = self._batch_norms.snapshot()

            def around() -> tuple[Any, Any]:
                return nullcontext(), self._batch_norms.forward(False, seen)  # which does not count it twice

            return checkpoint(self.submod, *args, use_reentrant=False, context_fn=around, **kwargs)
        return self.submod(*args, **kwargs)

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """PyTorch's, noted as B, C or I."""
        kind = "I" if not full_backward else "C" if bwd_chunk_id in self._recomputed else "B"
        with self._clock.op(Op(kind, bwd_chunk_id, self.stage_index)):
            super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """PyTorch's, noted as W."""
        with self._clock.op(Op("W", bwd_chunk_id, self.stage_index)):
            super().backward_weight_one_chunk(bwd_chunk_id, *args, **kwargs)

    def _get_init_p2p_neighbors_ops(self) -> list[Any]:
        """PyTorch's greetings to its neighbours, without those to its own rank: in 2.11 gloo can't send these."""
        return [op for op in super()._get_init_p2p_neighbors_ops() if op.group_peer != self.group_rank]
