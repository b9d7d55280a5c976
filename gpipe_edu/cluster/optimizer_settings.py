"""The part of an optimizer that is not tensors: its groups' settings, such as learning rates, and a scheduler's state.

Like everything that is saved, they are kept by the weights' names in the whole network: with another number of stages
each rank has other weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .pipeline import Pipeline
from .ranks import gather, refuse_together

_FILE: Final = "settings.pt"


class OptimizerSettings(NamedTuple):
    """groups: for each weight the settings of its group. scheduler: its state, None without one."""

    groups: Mapping[str, Mapping[str, Any]]
    scheduler: dict[str, Any] | None

    @classmethod
    def of(cls, pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None) -> OptimizerSettings:
        """The settings of all ranks, which call this together.

        Raises ValueError, on every rank, if a scheduler was not given, or differs from another rank's.
        """
        # ZeRO's optimizer, too, has groups of all weights, and passes their settings on to the one inside.
        groups = optimizer.param_groups
        wrong = ""
        if scheduler is None and any("initial_lr" in group for group in groups):  # set by a scheduler
            wrong = (
                "the optimizer has a scheduler, which would begin anew after a resume: save(..., scheduler=scheduler)"
            )
        refuse_together(wrong)
        mine = {name: _settings(group) for group in groups for name in _names(pipeline, group)}
        state = None if scheduler is None else scheduler.state_dict()
        found = gather((mine, state))
        for rank, (_, theirs) in enumerate(found):
            if repr(theirs) != repr(found[0][1]):
                raise ValueError(
                    f"rank {rank}'s scheduler is in another state than rank 0's; every rank must step it as often and "
                    "with the same numbers, and have the same groups in its optimizer"
                )
        return cls({name: group for groups, _ in found for name, group in groups.items()}, state)

    def write(self, folder: Path) -> None:
        """Write them into an existing folder."""
        torch.save(self._asdict(), folder / _FILE)

    @classmethod
    def read(cls, folder: Path) -> OptimizerSettings:
        """The settings that `write` has written to `folder`."""
        return cls(**torch.load(folder / _FILE, weights_only=False))

    def misfit(self, pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None) -> str:
        """Why this rank's optimizer or scheduler can't take them, as the end of a sentence; "" if they can."""
        if self.scheduler is None and scheduler is not None:
            return "was saved without a scheduler; leave scheduler=... out"
        if self.scheduler is not None and scheduler is None:
            return "was saved with a scheduler; give one like it: load(..., scheduler=scheduler)"
        for group in optimizer.param_groups:
            names = _names(pipeline, group)
            for name in names:
                if name not in self.groups:
                    return f"was saved with an optimizer that did not have {name}; give it the weights that it had"
                if repr(self.groups[name]) != repr(self.groups[names[0]]):
                    return (
                        f"was saved with an optimizer that had {names[0]} and {name} in groups of different settings; "
                        "make the groups as they were"
                    )
        return ""

    def put_into(self, pipeline: Pipeline, optimizer: Optimizer, scheduler: LRScheduler | None) -> None:
        """Set those of this rank's optimizer and scheduler."""
        for group in optimizer.param_groups:
            for name in _names(pipeline, group)[:1]:
                group.update(self.groups[name])
        if scheduler is not None and self.scheduler is not None:
            scheduler.load_state_dict(self.scheduler)


def _names(pipeline: Pipeline, group: Mapping[str, Any]) -> list[str]:
    """The names of the weights in a group."""
    mine = {id(weight) for weight in group["params"]}
    return [name for name, weight in pipeline.named_parameters() if id(weight) in mine]


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}
