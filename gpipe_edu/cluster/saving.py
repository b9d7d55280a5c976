"""A training on disk: saved by all ranks together, and resumed later, on any number of stages.

Every weight is saved under its name in the whole network, so it does not matter which rank holds it. A folder gets its
name only when every rank has written its part, so it is complete or does not exist.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .optimizer_settings import OptimizerSettings
from .pipeline import Pipeline
from .ranks import refuse_together

_KEPT: Final = 2
"""The newest, and the one before it, which another program may be reading."""

_NAME: Final = re.compile(r"step-(\d{8})")


def save(
    folder: Path | str, pipeline: Pipeline, optimizer: Optimizer, step: int, scheduler: LRScheduler | None = None
) -> Path:
    """Write weights, buffers, the state of optimizer, scheduler and each rank's random numbers after `step` steps.

    All ranks of all replicas call this. On several machines `folder` must be the same one everywhere. Returns the
    folder of this step; the two newest are kept. If a process is killed meanwhile, the earlier ones stay intact.
    Raises ValueError, on every rank, for an optimizer whose scheduler is not given, or schedulers that differ.
    """
    settings = OptimizerSettings.of(pipeline, optimizer, scheduler)
    folder = Path(folder)
    final = folder / f"step-{step:08d}"
    partial = folder / f"{final.name}.partial"
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
    dist.barrier()
    state: dict[str, Tensor] = {**_network(pipeline), f"random.{dist.get_rank()}": torch.get_rng_state()}
    names = {weight: name for name, weight in pipeline.named_parameters()}
    for weight, slots in _slots(optimizer).items():
        if weight in names:  # with ZeRO each replica has the state of some weights only
            state.update({_slot(names[weight], slot): value for slot, value in slots.items() if _kept(value)})
    state_dict_saver.save(state, checkpoint_id=partial)
    dist.barrier()
    if dist.get_rank() == 0:
        settings.write(partial)
        if final.exists():  # a run resumed from an older step comes here again
            shutil.rmtree(final)
        os.replace(partial, final)
        for old in saved_steps(folder)[:-_KEPT]:
            shutil.rmtree(old)
    dist.barrier()
    return final


def saved_steps(folder: Path | str) -> list[Path]:
    """The folders of complete steps in `folder`, the oldest first."""
    found = Path(folder).glob("step-*") if Path(folder).is_dir() else ()
    return sorted(path for path in found if _NAME.fullmatch(path.name))


def load(folder: Path | str, pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None = None) -> int:
    """Put the newest of `folder` into the pipeline, the optimizer and its scheduler.

    Returns the steps that it had made, 0 if the folder is empty.

    All ranks call this. The number of stages, ranks and replicas may differ from when it was saved; random states are
    restored only if the number of ranks is the same. Learning rates and other settings are those that were saved.
    Raises ValueError, on every rank, for a network of other layers, weights in other groups of the optimizer, or a
    scheduler here if none was saved.
    """
    if not (there := saved_steps(folder)):
        return 0
    known = FileSystemReader(there[-1]).read_metadata().state_dict_metadata
    state = _network(pipeline)
    settings = OptimizerSettings.read(there[-1])
    others = [name for name, value in state.items() if name not in known or _shape(known[name]) != value.shape]
    if others:
        wrong = (
            f"is of another network: {others[0].partition('.')[2]} is not there, or has another shape. Build the "
            "network as it was, or save into another folder"
        )
    else:
        wrong = settings.misfit(pipeline, optimizer, scheduler)
    refuse_together(wrong and f"{there[-1]} {wrong}")
    names = dict(pipeline.named_parameters())
    slots = {}
    for key in known:
        name, _, slot = key.removeprefix("optimizer.").rpartition(".")
        if key.startswith("optimizer.") and name in names:
            slots[name, slot] = state[key] = _empty(known[key], pipeline.device)
    ranks = sum(key.startswith("random.") for key in known)
    random = f"random.{dist.get_rank()}"
    if ranks == dist.get_world_size():
        state[random] = torch.get_rng_state()
    state_dict_loader.load(state, checkpoint_id=there[-1])
    pipeline.mark_loaded()
    settings.put_into(pipeline, optimizer, scheduler)
    for (name, slot), value in slots.items():
        if _mine(optimizer, names[name]):
            _slots(optimizer).setdefault(names[name], {})[slot] = value
    if random in state:
        torch.set_rng_state(state[random])
    found = _NAME.fullmatch(there[-1].name)
    return int(found[1]) if found else 0


def _network(pipeline: Pipeline) -> dict[str, Tensor]:
    tensors = [*pipeline.named_parameters(), *pipeline.named_buffers()]
    return {f"network.{name}": tensor.detach() for name, tensor in tensors}


def _slots(optimizer: Optimizer) -> Any:
    """State by weight; PyTorch's ZeRO optimizer holds a plain one, for the weights whose state this rank keeps."""
    return getattr(optimizer, "optim", optimizer).state


def _mine(optimizer: Optimizer, weight: Tensor) -> bool:
    groups = getattr(optimizer, "optim", optimizer).param_groups
    return any(weight is other for group in groups for other in group["params"])


def _slot(name: str, slot: str) -> str:
    return f"optimizer.{name}.{slot}"


def _kept(value: object) -> bool:
    return isinstance(value, Tensor)


def _shape(known: Any) -> Any:
    return known.size if isinstance(known, TensorStorageMetadata) else None


def _empty(known: Any, device: torch.device) -> Tensor:
    return torch.empty(known.size, dtype=known.properties.dtype, device=device)
