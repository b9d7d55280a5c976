"""What FSDP holds beside a pipeline is what the planner counts: PyTorch's engine reduces once a step, so ZeRO-1."""

import pytest

from gpipe_edu.sizing import STATES, Job, Machine, Plan
from gpipe_edu.sizing.flags import TORCHTITAN, flags, lacking
from gpipe_edu.sizing.model import LayerSize, Model

from . import sharded
from .on_ranks import run

pytestmark = pytest.mark.slow

OURS = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "Interleaved1F1B": "interleaved",
    "LoopedBFS": "breadth_first",
    "InterleavedZeroBubble": "interleaved_zero_bubble",
    "ZBVZeroBubble": "zero_bubble_v",
    "DualPipeV": "dual_pipe_v",
}
"""All that PyTorch ships, as the planner calls them."""

STAGES = {"GPipe": 1, "1F1B": 1}

SPLIT = ("InterleavedZeroBubble", "ZBVZeroBubble")

CASES = [(name, STAGES.get(name, 2), reshard) for name in OURS for reshard in (False, True)]


@pytest.fixture(scope="module")
def found(group):
    """By case, what each of four ranks held, all in one start."""
    return dict(zip(CASES, zip(*run(group, 4, sharded.held, CASES), strict=True), strict=True))


def plan(name, zero):
    K, D, M = sharded.K, sharded.D, sharded.M
    layers = tuple(LayerSize(f"{k}", 100, 1000, 8, 8) for k in range(4))
    job = Job(Model("4 equal layers", 8, layers), D * M, Machine(4, 1e6, 1000), STATES["mixed-adam"])
    return Plan(job, D, K, M, schedule=OURS[name], zero=zero)


def most(ranks):
    """The most of whole weights, and of gradients, that a rank held after a backward."""
    return tuple(max(each) for each in zip(*(step for rank in ranks for step in rank), strict=True))


@pytest.mark.parametrize("name", OURS)
def test_beside_a_pipeline_a_rank_holds_what_the_planner_counts(found, name):
    """Bytes per weight: 2 of a whole one, 4 of its whole gradient; breadth first one stage's gradients at a time."""
    ranks = found[name, STAGES.get(name, 2), False]
    zero = 2 if name == "LoopedBFS" else 1
    paper = plan(name, zero)
    parameters = 200
    assert most(ranks) == pytest.approx((paper.weights[0] / parameters, paper.gradients[0] / parameters))
    assert most(ranks) == ((2, 3) if name == "LoopedBFS" else (2, 4))
    # In the end there is a share of each gradient, and no whole weight.
    assert {rank[-1] for rank in ranks} == {(0, 4 / sharded.D)}
    assert "ZeRO" not in " ".join(lacking(paper)[TORCHTITAN])
    assert f"ZeRO-{zero + 1} beside a pipeline" in lacking(plan(name, zero + 1))[TORCHTITAN]


@pytest.mark.parametrize("name", [name for name in OURS if name not in SPLIT])
def test_weights_that_go_after_each_forward_change_nothing_of_the_gradients(found, name):
    always, never = (found[name, STAGES.get(name, 2), reshard] for reshard in (True, False))
    assert most(always)[1] == most(never)[1]


def test_breadth_first_one_stage_at_a_time_is_whole_if_weights_go_after_each_forward(found):
    """Which is ZeRO-3's formula: a share of all, and the rest of a stage."""
    share = 2 / sharded.D
    rest = plan("LoopedBFS", 3).weights[0] / 200 - share
    assert most(found["LoopedBFS", 2, True])[0] == pytest.approx(rest / (1 - 1 / sharded.D)) == 2 / 2


@pytest.mark.parametrize("name", SPLIT)
def test_they_lose_gradients_where_backwards_are_split_so_no_flag_asks_for_it(found, name):
    """As PyTorch 2.13 does it. When a release mends it, this fails: then say up to which."""
    ends = [rank[-1][1] for rank in found[name, 2, True]]
    assert min(ends) < 4 / sharded.D
    for zero in (1, 2, 3):
        assert "always" not in " ".join(flag.text for flag in flags(plan(name, zero))[TORCHTITAN])
