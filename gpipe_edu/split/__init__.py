"""Cutting: batches into micro-batches, layers into stages."""

from .megatron_layout import balance_of_layout, layout_of_balance
from .microbatch import join_batch, split_batch
from .partition import balance_by_cost, balance_uniform

__all__ = ["balance_by_cost", "balance_of_layout", "balance_uniform", "join_batch", "layout_of_balance", "split_batch"]
