"""From what a user asks for (a schedule's name, a checkpoint mode) to the schedule that runs."""

from __future__ import annotations

from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recipes import RECIPES, by_name, form_of
from gpipe_edu.schedule.recompute import with_recompute


def build(schedule: str | Schedule, K: int, M: int, checkpoint: str | None) -> Schedule:
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
