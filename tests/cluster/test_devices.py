"""All ranks get a GPU, or none does: what would be sent by NCCL on one side and by gloo on the other never arrives."""

import pytest

from tests.processes import PATIENCE

from . import starting

pytestmark = pytest.mark.slow


def told(gpus, wish):
    """What each of two ranks says, and its exit code; `gpus`: how many the machine of each seems to have."""
    with starting.ranks(2, ("-m", "tests.cluster.with_gpus", gpus, wish)) as processes:
        texts = [process.communicate(timeout=PATIENCE)[0] for process in processes.values()]
        return texts, [process.returncode for process in processes.values()]


@pytest.mark.parametrize(
    ("gpus", "wish", "first", "second"),
    [
        ("2,2", "auto", "cuda:0 cpu:gloo,cuda:nccl 0", "cuda:1 cpu:gloo,cuda:nccl 1"),
        ("2,0", "auto", "cpu gloo None", "cpu gloo None"),
        ("1,1", "auto", "cpu gloo None", "cpu gloo None"),  # two ranks here, and one GPU
        ("2,2", "cpu", "cpu gloo None", "cpu gloo None"),
    ],
)
def test_every_rank_has_a_gpu_or_none_has(gpus, wish, first, second):
    texts, codes = told(gpus, wish)
    assert codes == [0, 0], texts
    assert first in texts[0]
    assert second in texts[1]


@pytest.mark.parametrize(
    ("gpus", "wish", "why"),
    [
        ("2,1", "cuda", "rank 1: device is 'cuda', but its machine has 1 GPU for 2 ranks; use --device cpu"),
        ("2,2", "tpu", "rank 0: device is 'tpu'; it must be one of auto, cpu, cuda"),
    ],
)
def test_what_cannot_be_had_is_refused_on_every_rank(gpus, wish, why):
    texts, codes = told(gpus, wish)
    assert 0 not in codes
    assert all(why in text for text in texts)
