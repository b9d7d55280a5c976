"""The part of an optimizer that is not tensors: its groups' settings, such as learning rates, what it counts for each
weight, and a scheduler's state.

Like everything that is saved, they are kept under the weights' names in the whole network: with another number of
stages each rank has other weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .checkpoint_folder import read_object, write_object
from .pipeline import Pipeline
from .rank_state import same
from .ranks import gather, refuse_together
from .schedulers_and_scalers import PLATEAUS

_FILE: Final = "settings.pt"


class OfWeight(NamedTuple):
    """settings: of the weight's group. place: the number of that group. counts: the state that is not tensors."""

    settings: Mapping[str, Any]
    place: int
    counts: Mapping[str, Any]


class OptimizerSettings(NamedTuple):
    """weights: by name. groups: their settings, by their number. scheduler: its state, None without one."""

    weights: Mapping[str, OfWeight]
    groups: Sequence[Mapping[str, Any]]
    scheduler: dict[str, Any] | None

    @classmethod
    def of(
        cls, pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None, others: Collection[object]
    ) -> OptimizerSettings:
        """The settings of all ranks, which call this together. others: what is saved besides.

        Raises ValueError, on every rank, if a scheduler was not given, or differs from another rank's, for copies of a
        weight whose settings differ, and for an optimizer of weights other than the pipeline's.
        """
        # ZeRO's optimizer, too, has groups of all weights, and passes their settings on to the one inside.
        groups, slots = optimizer.param_groups, slots_of(optimizer)
        refuse_together(_lost(pipeline, optimizer, scheduler, others))
        names = {weight: name for name, weight in pipeline.named_parameters()}
        mine = {
            names[weight]: OfWeight(_settings(group), place, _counts(slots.get(weight, {})))
            for place, group in enumerate(groups)
            for weight in group["params"]
        }
        state = None if scheduler is None else scheduler.state_dict()
        found = gather((mine, state))
        first: dict[str, Any] = found[0][1] or {}
        for rank, (_, theirs) in enumerate(found):
            for name in dict.fromkeys([*first, *(theirs or {})]):
                ours, other = (repr((known or {}).get(name)) for known in (first, theirs))
                if ours != other:
                    raise ValueError(
                        f"the schedulers of rank 0 and rank {rank} are in different states: {name} is {ours} on rank 0 "
                        f"and {other} on rank {rank}; every rank must step its own as often and with the same numbers, "
                        "and have the same groups in its optimizer, empty ones as well"
                    )
        weights: dict[str, OfWeight] = {}
        holder: dict[str, int] = {}
        for rank, (theirs, _) in enumerate(found):
            for name, one in theirs.items():
                before, holds = weights.get(name, one), holder.setdefault(name, rank)
                if not same(one.settings, before.settings):
                    raise ValueError(
                        f"{name} has the settings {one.settings} on rank {rank} and {before.settings} on rank {holds}, "
                        "where there are copies of it, which then differ; give both the same group, by its name in "
                        "pipeline.named_parameters()"
                    )
                # With ZeRO one replica alone has a weight's state.
                if name not in weights or one.counts:
                    weights[name] = one
        return cls(weights, [_settings(group) for group in groups], state)

    def write(self, folder: Path) -> Path:
        """Write them into an existing folder; returns the file."""
        return write_object(folder / _FILE, (dict(self.weights), list(self.groups), self.scheduler))

    @classmethod
    def read(cls, folder: Path) -> OptimizerSettings:
        """The settings that `write` has written to `folder`."""
        return cls(*read_object(folder / _FILE))

    def misfit(self, pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None) -> str:
        """Why this rank's optimizer or scheduler can't take them, as the end of a sentence; "" if they can."""
        if self.scheduler is None and scheduler is not None:
            return "was saved without a scheduler; leave scheduler=... out"
        if self.scheduler is not None and scheduler is None:
            return "was saved with a scheduler; give one like it: load(..., scheduler=scheduler)"
        if scheduler is not None and len(optimizer.param_groups) != len(self.groups):
            return (
                f"was saved with a scheduler of {len(self.groups)} groups of weights, and this optimizer has "
                f"{len(optimizer.param_groups)}; make the groups as they were"
            )
        for place, group in enumerate(optimizer.param_groups):
            names = _names(pipeline, group)
            for name in names:
                if name not in self.weights:
                    return f"was saved with an optimizer that did not have {name}; give it the weights that it had"
                if repr(self.weights[name].settings) != repr(self.weights[names[0]].settings):
                    return (
                        f"was saved with an optimizer that had {names[0]} and {name} in groups of different settings; "
                        "make the groups as they were"
                    )
                if scheduler is not None and self.weights[name].place != place:
                    return (
                        f"was saved with an optimizer that had {name} in group {self.weights[name].place}, and here it "
                        f"is in group {place}; a scheduler tells groups apart by their order, so make them as they were"
                    )
        return ""

    def put_into(self, pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None) -> None:
        """Set those of this rank's optimizer and scheduler."""
        groups = optimizer.param_groups
        for place, group in enumerate(groups):
            for name in _names(pipeline, group)[:1]:
                group.update(self.weights[name].settings)
            # Also for a group with no weights here: a scheduler, or a rate set by hand, still goes on from its rate.
            if not group["params"] and len(groups) == len(self.groups):
                group.update(self.groups[place])
        if scheduler is not None and self.scheduler is not None:
            scheduler.load_state_dict(self.scheduler)


def slots_of(optimizer: Optimizer) -> Any:
    """State by weight; PyTorch's ZeRO optimizer holds a plain one, for the weights whose state this rank keeps."""
    return getattr(optimizer, "optim", optimizer).state


def _lost(pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None, others: Collection[object]) -> str:
    """What a resume would lose, as a sentence; "" if nothing."""
    weights = set(pipeline.parameters())
    if any(weight not in weights for group in optimizer.param_groups for weight in group["params"]):
        return "the optimizer has a weight that this rank's pipeline does not: give it pipeline.parameter_groups()"
    if any(key not in weights for key in slots_of(optimizer)):
        return "the optimizer keeps state that belongs to no weight, and would lose it: give it in extra, too"
    if scheduler is None and _has_scheduler(optimizer, others):
        return "the optimizer has a scheduler, which would begin anew after a resume: save(..., scheduler=scheduler)"
    return ""


def _has_scheduler(optimizer: Optimizer, others: Collection[object]) -> bool:
    """Whether a scheduler that is not among `others` changes the learning rates."""
    if any("initial_lr" in group for group in optimizer.param_groups):
        return not any(isinstance(other, LRScheduler) for other in others)
    return any(one.optimizer is optimizer and all(one is not other for other in others) for one in PLATEAUS)


def _names(pipeline: Pipeline, group: Mapping[str, Any]) -> list[str]:
    """The names of the weights in a group."""
    mine = {id(weight) for weight in group["params"]}
    return [name for name, weight in pipeline.named_parameters() if id(weight) in mine]


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}


def _counts(slots: Mapping[str, Any]) -> dict[str, Any]:
    return {slot: value for slot, value in slots.items() if not isinstance(value, Tensor)}
