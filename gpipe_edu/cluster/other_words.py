"""What a pipeline of processes is asked for under names that it does not have: those of `nn.Module`, of `GPipe`, and of
other libraries. Each has a sentence with what to do instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recipes import RECIPES, recipe_name

_STAGES: Final = "the schedule says it: ge.one_f_one_b(2, 8) has 2 stages and 8 micro-batches"
_NO_TARGET: Final = "call it y: pipeline.step(x, y)"

_ARGUMENTS: Final = {
    **dict.fromkeys(("partitions", "stages", "micro_batches", "chunks", "n_microbatches", "num_microbatches"), _STAGES),
    "devices": "each rank has one device: device=ranks.device",
    "checkpoint": 'the schedule says what is recomputed: ge.gpipe(2, 8, recompute="late")',
    **dict.fromkeys(("target", "targets", "labels"), _NO_TARGET),
    "max_norm": "it is the first one: pipeline.clip_grad_norm(1.0)",
    "losses": "step() returns the loss where the last stage is, and pipeline.sum_over_ranks(loss) has it everywhere",
}

_CAST: Final = (
    "a pipeline stays on the device that it was given, Pipeline(net, ..., device=ranks.device), and in the types that "
    "the net had: net.double(), say, before Pipeline(net, ...)"
)
_LAYERS: Final = "this rank's layers, by the names that they have in the whole network, are in pipeline.layers"

_METHODS: Final = {
    **dict.fromkeys(("to", "cuda", "cpu", "half", "bfloat16", "float", "double"), _CAST),
    **dict.fromkeys(("modules", "named_modules", "children", "apply", "register_forward_hook"), _LAYERS),
    "forward": "pipeline.predict(x) gives the network's output, pipeline.step(x, y) trains",
    "state_dict": "a rank has the weights of its own layers only: gpipe_edu.cluster.saving.save(folder, pipeline, "
    "optimizer, step) saves those of all ranks, and dict(pipeline.named_parameters()) has this rank's",
    "load_state_dict": "load before the pipeline takes the net, net.load_state_dict(...), or, what save() of "
    "gpipe_edu.cluster.saving has saved, by its load(folder, pipeline, optimizer)",
}


def no_other_arguments(other: Mapping[str, object], who: str) -> None:
    """Raises TypeError for arguments that `who` does not have."""
    for name in other:
        raise TypeError(f"{who} has no argument {name!r}; {_ARGUMENTS.get(name, f'help({who}) lists what it has')}")


def no_such_name(name: str) -> str:
    """The sentence for an attribute that a pipeline does not have."""
    return f"a pipeline of processes has no {name!r}" + (f"; {_METHODS[name]}" if name in _METHODS else "")


def is_a_schedule(schedule: object, ranks: int) -> None:
    """Raises TypeError for anything but a Schedule, such as a schedule's name, which `GPipe` takes."""
    if not isinstance(schedule, Schedule):
        name = (isinstance(schedule, str) and recipe_name(schedule)) or "1f1b"
        recipe = RECIPES[name].__name__
        made = f"ge.{recipe}({ranks}, 8)" if recipe.isidentifier() else f"recipes.by_name({name!r}, {ranks}, 8)"
        raise TypeError(
            f"schedule is {schedule!r}; it must be a Schedule, which also says into how many micro-batches a "
            f"mini-batch is cut: {made}, say, for {ranks} ranks and 8 micro-batches"
        )
