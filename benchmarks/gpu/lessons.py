"""The lessons' own cells: the appendix of lesson 06, and the step by M of lesson 08 with its stages on the GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from benchmarks.gpu.findings import Findings
from benchmarks.gpu.ops import gpu
from benchmarks.gpu.sizes import Sizes
from gpipe_edu.pytorch import place

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
APPENDIX = ("setup", "setup-torch", "network", "difference", "gpu-find", "gpu-same", "gpu-run")
BY_M = ("exp-imports", "exp-torch", "exp-model", "exp-quickest", "exp-p-best-m", "exp-best-m")


def run(found: Findings, sizes: Sizes) -> None:
    sys.modules["gpipe_edu.course"] = without_learner()
    names = run_cells("06_pytorch_pipeline", APPENDIX, {"(2048, 8192)": str(sizes.lesson), "cuda:": f"{place.GPU}:"})
    found.check("lesson 06, appendix", f"its asserts hold, with stages on {', '.join(names['devices'])}", True)
    for held, step in zip(names["held"], names["runs"], strict=True):
        found.figure(f"lesson 06, {step.name}", f"{step.makespan * 1e3:.1f} ms, {max(held) / 1e6:.1f} MB")
    names = run_cells(
        "08_experiments", BY_M, {'devices=["cpu"]': f"devices={[gpu()]}", "rounds=8": f"rounds={sizes.lesson_rounds}"}
    )
    for micro_batches, seconds in names["measured"].items():
        found.figure(f"lesson 08, K = 2, M = {micro_batches}", f"{1e3 * seconds:.2f} ms")


def run_cells(notebook: str, keys: tuple[str, ...], instead: dict[str, str]) -> dict[str, Any]:
    """The names that some cells leave, with other texts in place of some of theirs, each of which has to be there."""
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    codes = {cell["id"]: "".join(cell["source"]) for cell in cells}
    code = "\n".join(codes[key] for key in keys)
    for text, other in instead.items():
        if text not in code:
            raise ValueError(f"{notebook} no longer has {text!r} in its cells {', '.join(keys)}")
        code = code.replace(text, other)
    names: dict[str, Any] = {"loss_fn": torch.nn.CrossEntropyLoss()}
    exec(code, names)
    return names


def without_learner() -> ModuleType:
    """What cells import of `gpipe_edu.course`, which needs more packages, for a run that nobody learns from."""
    course = ModuleType("gpipe_edu.course")
    course.predict = course.attempt = course.progress = lambda *given: None
    course.solves = lambda *given: False
    course.track = lambda work, what: work
    course.on_your_machine = lambda claim, holds: print(f"{claim} {'held' if holds else 'did not hold'}")
    return course
