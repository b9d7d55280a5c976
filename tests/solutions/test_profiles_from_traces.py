"""What is wrong with a run is found in the traces of its ranks, by exercise 16's solution and by ge.diagnose alike."""

from pathlib import Path
from random import Random
from statistics import median

import pytest

import gpipe_edu as ge
from gpipe_edu.course.building import percent_format
from gpipe_edu.timeline import step_with_fault
from tests.timeline.opened import traces

MASTER = Path(__file__).parents[2] / "solutions" / "exercise_16_profile.py"

SEEDS = 70


@pytest.fixture(scope="module")
def solution():
    cells = percent_format.read(MASTER.read_text(encoding="utf-8"))
    names = {"median": median}
    exec(next(cell.source for cell in cells if "### BEGIN SOLUTION" in cell.source), names)
    return names["diagnose"]


def runs(fault):
    """Steps of many shapes with that fault: its rank, how many layers each has, and the step."""
    for seed in range(SEEDS):
        draw = Random(f"{fault} {seed}")
        K, M = draw.randint(3, 6), draw.randint(4, 12)
        layers, rank = [4] * K, draw.randrange(K)
        if fault == "uneven cut":
            layers[rank] += draw.randint(2, 4)
        else:
            layers[draw.randrange(K)] += draw.choice((-1, 1))
        knobs = {"slow_rank": rank} if fault == "slow rank" else {}
        yield rank, layers, step_with_fault(draw.choice((ge.gpipe, ge.one_f_one_b))(K, M), layers, seed=seed, **knobs)


@pytest.mark.parametrize("fault", ["slow rank", "uneven cut"])
def test_all_of_them_are_found_in_the_traces_of_cpus_and_gpus(fault, solution, tmp_path):
    missed = []
    for seed, (rank, layers, step) in enumerate(runs(fault)):
        files = traces.save_all(tmp_path / str(seed), step, gpu=seed % 2 == 1, seed=seed)
        opened = ge.load(files)
        found = ge.diagnose(opened, layers=layers)
        said = {"ge.diagnose": (found.cause, found.slowest_stage), "exercise 16": solution(opened, list(layers))}
        missed += [(seed, who, what) for who, what in said.items() if what != (fault, rank)]
    assert not missed
