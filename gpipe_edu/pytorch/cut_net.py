"""From what a user asks for to what runs: a net cut into stages of consecutive layers, with the same checks for one
process and for several; a schedule's name and a checkpoint mode turned into a schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from gpipe_edu.base.validate import whole
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recipes import RECIPES, by_name, form_of
from gpipe_edu.schedule.recompute import with_recompute
from gpipe_edu.split import balance_uniform

from .guards import buffers_stay_in_one_stage, not_sharded, plain_sequential


def cut_net(net: object, K: int, balance: Iterable[int] | None) -> list[list[nn.Module]]:
    """The layers of each of K stages, as even as possible unless `balance` gives their numbers.

    Raises TypeError or ValueError for a net that does more than run its layers, for counts that don't fit it, and for
    running means that two stages would share.
    """
    if isinstance(net, nn.Module):
        not_sharded(net.modules())
    layers = layers_of(plain_sequential(net))
    counts = balance_uniform(len(layers), K) if balance is None else layer_counts(balance)
    if len(counts) != K or sum(counts) != len(layers):
        raise ValueError(
            f"balance is {tuple(counts)}, which places {sum(counts)} layers on {len(counts)} stages; net has "
            f"{len(layers)} layers, and there are to be {K} stages"
        )
    return group(layers, counts)


def layer_counts(balance: Iterable[int]) -> list[int]:
    """`balance` as a list of whole numbers. Raises TypeError or ValueError for anything else."""
    if not isinstance(balance, Iterable) or isinstance(balance, str):
        raise TypeError(f"balance is {balance!r}; it must be a list of layer counts, one per stage")
    counts = [whole("balance", n, 0) for n in balance]
    if 0 in counts:
        raise ValueError(
            f"balance is {tuple(counts)}, and each stage needs a layer; take fewer stages, or nn.Identity() as the "
            "layer of a stage that has nothing to do"
        )
    return counts


def layers_of(net: nn.Module) -> list[nn.Module]:
    """The layers that run one after another."""
    return [layer for layer in net._modules.values() if layer is not None]


def group(layers: Sequence[nn.Module], counts: Sequence[int]) -> list[list[nn.Module]]:
    """The layers in groups of `counts`. Raises ValueError for running means that two groups would share."""
    ends = [sum(counts[: k + 1]) for k in range(len(counts))]
    groups = [list(layers[end - count : end]) for end, count in zip(ends, counts, strict=True)]
    buffers_stay_in_one_stage(groups)
    return groups


def choose_schedule(schedule: str | Schedule, K: int, M: int, checkpoint: str | None) -> Schedule:
    """The schedule to run, checked. checkpoint: which micro-batches recompute; by default "except_last".

    Raises TypeError or ValueError for an unknown schedule or mode, a Schedule that does not fit K and M, or a Schedule
    together with a mode; ScheduleError for a Schedule that cannot run.
    """
    if isinstance(schedule, Schedule):
        if checkpoint is not None:
            raise ValueError(
                f"checkpoint is {checkpoint!r}, but a Schedule says itself what is recomputed, by its R and C ops; "
                f"leave checkpoint out, or give the schedule by name"
            )
        schedule.check()
        for name, given, own in (
            ("partitions", K, schedule.stages),
            ("micro_batches", M, schedule.micro_batches),
        ):
            if given != own:
                raise ValueError(f"{name} is {given}, but the schedule has {own}; both must be the same")
        return schedule
    if schedule not in list(RECIPES) or not _leaves_recompute(schedule):
        names = ", ".join(filter(_leaves_recompute, RECIPES))
        raise ValueError(f"schedule is {schedule!r}; it must be one of {names}, or a Schedule")
    return with_recompute(by_name(schedule, K, M), "except_last" if checkpoint is None else checkpoint)


def _leaves_recompute(name: str) -> bool:
    """Whether this recipe has one stage a device and leaves it to `checkpoint` what is recomputed."""
    form = form_of(name)
    return form.stages == 1 and not (form.takes_V or form.recomputes)
