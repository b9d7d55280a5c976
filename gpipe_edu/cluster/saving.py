"""A training on disk: saved by all ranks together, and resumed later, on any number of stages.

Every weight is saved under its name in the whole network, so it does not matter which rank holds it. PyTorch's
`torch.distributed.checkpoint` writes the tensors; `optimizer_settings.py` and `rank_state.py` have the rest, and
`checkpoint_folder.py` tells which steps are whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from . import rank_state
from .checkpoint_folder import (
    digests,
    do_together,
    finish,
    newest_whole,
    partial_folder,
    saved_steps,
    step_folder,
    step_of,
)
from .optimizer_settings import OptimizerSettings, slots_of
from .pipeline import Pipeline
from .rank_state import Extra, Place, RankState
from .ranks import gather, refuse_together

__all__ = ["load", "save", "saved_steps"]


def save(
    folder: Path | str,
    pipeline: Pipeline,
    optimizer: Optimizer,
    step: int,
    scheduler: LRScheduler | None = None,
    extra: Extra | None = None,
) -> Path:
    """Write weights, buffers, the state of optimizer and scheduler, and each rank's random numbers after `step` steps.

    extra: what else is saved, by name, as `load` is to be given it: a dict, a torch.Generator, or anything that has
    `state_dict` and `load_state_dict`, such as a ShardedGradScaler. Each rank has its own.

    All ranks of all replicas call this. On several machines `folder` must be the same one everywhere. Returns the
    folder of this step; the two newest are kept. If a process is killed meanwhile, the earlier ones stay intact.
    Raises ValueError, on every rank, for an optimizer whose scheduler is not given, schedulers that differ, or settings
    of one weight that do; TypeError for an extra of another kind; OSError, on every rank, if one can't write, as on a
    full disk.
    """
    extra = extra or {}
    rank_state.check(extra)
    settings = OptimizerSettings.of(pipeline, optimizer, scheduler, list(extra.values()))
    if any(theirs != set(extra) for theirs in gather(set(extra))):
        raise ValueError("ranks have given extras of other names; give the same on every rank")
    final = step_folder(Path(folder), step)
    partial = partial_folder(final)
    network = _network(pipeline, first=Place.of(pipeline).replica == 0)
    rank, state = dist.get_rank(), network | _slots(pipeline, optimizer)

    def begin() -> None:
        if rank == 0:
            shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
            partial.mkdir(parents=True)

    def write_rest() -> dict[str, Any]:
        """Write all but the tensors; returns what must be known of this rank's files."""
        own = [rank_state.write(partial, pipeline, extra), *partial.glob(f"__{rank}_*")]
        return digests(own if rank else [*own, settings.write(partial), partial / ".metadata"])

    what = f"{final} can't be written"
    try:
        do_together(begin, what)
        _in_words(lambda: state_dict_saver.save(state, storage_writer=_Writer(partial)), what)
        written = do_together(write_rest, what)
        do_together(lambda: finish(partial, final, written) if rank == 0 else None, what)
    except OSError:
        if rank == 0:
            shutil.rmtree(partial, ignore_errors=True)  # the disk may be full
        raise
    return final


def load(
    folder: Path | str,
    pipeline: Pipeline,
    optimizer: Optimizer,
    scheduler: LRScheduler | None = None,
    extra: Extra | None = None,
) -> int:
    """Load the newest step of `folder` that is whole into the pipeline, the optimizer, its scheduler and each `extra`.

    Returns how many steps had been made, 0 if the folder is empty. Warns if a newer one is damaged.

    All ranks call this. The number of stages, ranks and replicas may differ from when it was saved; of random states
    and extras each rank then gets those that were alike on all ranks, or on all of its replica. Learning rates and
    other settings are those that were saved. The files are unpickled: load only what you trust.
    Raises ValueError, on every rank, for a network of other layers, weights in other groups of the optimizer, a
    scheduler or an extra on one side only, an extra that can't be divided anew, or if all that was saved is damaged.
    """
    extra = extra or {}
    rank_state.check(extra)
    there = newest_whole(Path(folder))
    if there is None:
        return 0
    known = FileSystemReader(there).read_metadata().state_dict_metadata
    settings, own = OptimizerSettings.read(there), RankState.read(there, pipeline)
    state = _network(pipeline)
    everywhere = {name for names in gather(list(state)) for name in names}
    wrong = _other_network(state, everywhere, known)
    wrong = wrong or settings.misfit(pipeline, optimizer, scheduler) or own.misfit(extra)
    refuse_together(wrong and f"{there} {wrong}")
    weights = _with_state(pipeline, optimizer)
    slots = {}
    for key in known:
        name, _, slot = key.removeprefix("optimizer.").rpartition(".")
        if key.startswith("optimizer.") and name in weights:
            device = device_of_slot(slot, settings.weights[name].settings, pipeline.device)
            slots[name, slot] = state[key] = _empty(known[key], device)
    _in_words(lambda: state_dict_loader.load(state, checkpoint_id=there), f"{there} can't be read")
    pipeline.mark_loaded()
    settings.put_into(pipeline, optimizer, scheduler)
    for (name, slot), value in slots.items():
        slots_of(optimizer).setdefault(weights[name], {})[slot] = value
    for name, weight in weights.items():
        if settings.weights[name].counts:
            slots_of(optimizer).setdefault(weight, {}).update(settings.weights[name].counts)
    own.put_into(pipeline, extra)
    return step_of(there)


def _network(pipeline: Pipeline, *, first: bool = True) -> dict[str, Tensor]:
    """first: whether this is the first replica. Of buffers only its own count, besides those of experts: the next step
    gives them to the other replicas."""
    buffers = [(name, one) for name, one in pipeline.named_buffers() if first or name in pipeline.experts]
    tensors = [*pipeline.named_parameters(), *buffers]
    return {f"network.{name}": tensor.detach() for name, tensor in tensors}


def _slots(pipeline: Pipeline, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state, as far as it is tensors."""
    names = {weight: name for name, weight in pipeline.named_parameters()}
    return {
        f"optimizer.{names[weight]}.{slot}": value
        for weight, slots in slots_of(optimizer).items()
        for slot, value in slots.items()
        if isinstance(value, Tensor)
    }


def _with_state(pipeline: Pipeline, optimizer: Optimizer) -> dict[str, nn.Parameter]:
    """The weights whose state this rank's optimizer keeps: with ZeRO, some of them."""
    groups = getattr(optimizer, "optim", optimizer).param_groups
    kept = {weight for group in groups for weight in group["params"]}
    return {name: weight for name, weight in pipeline.named_parameters() if weight in kept}


def device_of_slot(slot: str, settings: Mapping[str, Any], device: torch.device) -> torch.device:
    """Where a part of the optimizer's state belongs if its weight is on `device`: as when PyTorch loads an optimizer,
    counts of steps are on the host, unless the optimizer itself keeps them on the device."""
    on_host = slot == "step" and not settings.get("capturable") and not settings.get("fused")
    return torch.device("cpu") if on_host else device


def _other_network(state: Mapping[str, Tensor], everywhere: Collection[str], known: Mapping[str, Any]) -> str:
    """How the network that was saved differs, as the end of a sentence; "" if it does not. everywhere: names that some
    rank has."""
    names = [name for name, value in state.items() if name not in known or _shape(known[name]) != value.shape]
    for name in [*names, *(name for name in known if name.startswith("network.") and name not in everywhere)]:
        where = "there" if name in everywhere else "here"
        return (
            f"is of another network: {name.partition('.')[2]} is not {where}, or has another shape. Build the network "
            "as it was, or save into another folder"
        )
    return ""


class _Writer(FileSystemWriter):
    """PyTorch's, which reports a full disk as "unexpected pos 704 vs 598"; this one says what the system said."""

    def write_data(self, *arguments: Any) -> Any:
        """PyTorch's."""
        try:
            return super().write_data(*arguments)
        except RuntimeError as error:
            first: BaseException | None = error
            while first is not None and not isinstance(first, OSError):
                first = first.__context__
            raise (first or error) from error


def _in_words(work: Callable[[], object], what: str) -> None:
    """Do PyTorch's work on tensors. Raises OSError, on every rank, beginning with `what`, if it fails on one."""
    try:
        work()
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        words = getattr(cause, "strerror", None) or f"{type(cause).__name__}: {cause}".splitlines()[0]
        raise OSError(f"{what}: {words} (rank {rank})") from error


def _shape(known: Any) -> Any:
    return known.size if isinstance(known, TensorStorageMetadata) else None


def _empty(known: Any, device: torch.device) -> Tensor:
    return torch.empty(known.size, dtype=known.properties.dtype, device=device)
