"""The sizing guide: how to divide the training of a model among devices, planned on paper.

`model.py` counts what layers have, `mixture.py` what experts add; `job.py` says what is to be trained on which devices,
`costs.py` what each part of a step costs; `stages.py` has the sums for a stage, `plan.py` one way to divide the work,
`planner.py` the search; a plan is simulated only if its lower bound says that it may win. `presets.toml` has machines
and models with their sources, `machine_file.py` reads one's own, `measurement.py` measures it; `hugging_face.py` reads
a model's config.json. `flags.py` names what runs plans, `like.py` plans a split that runs elsewhere, and `systems.toml`
has the words of both; `page/` is what a notebook shows, with sliders.
"""

from .in_words import duration, size
from .job import STATES, BytesPerParameter, Job, Machine
from .model import LayerSize, Model, mlp, transformer
from .plan import Plan
from .planner import Planner, SearchSpace, guide

__all__ = [
    "STATES",
    "BytesPerParameter",
    "Job",
    "LayerSize",
    "Machine",
    "Model",
    "Plan",
    "Planner",
    "SearchSpace",
    "duration",
    "guide",
    "mlp",
    "size",
    "transformer",
]
