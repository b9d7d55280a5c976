"""A loss that a layer injects in a backward: what docs/engine_limits.md says of it is so."""

from pathlib import Path

import pytest
from torch import nn

from tests.injected import Penalized, lines
from tests.pytorch.habits.ways import TRAINS, Plain, as_plain, batch, held, same, seeded, weighed

PAGES = [Path(__file__).resolve().parents[2] / "docs" / name for name in ("engine_limits.md", "cluster_limits.md")]


def trained(way, text, samples=7):
    net = seeded(lambda: Penalized(6, text), lambda: nn.Linear(6, 6), lambda: Penalized(6, text))
    for layer in (net[0], net[2]):
        layer.samples = samples
    x = batch(6)[:samples].requires_grad_()
    return way.learn(way.wrap(net), x, x.new_zeros(len(x), 1), weighed), x.grad, held(net)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_two_lines_of_the_page_make_it_count_once(page):
    as_plain(lambda way: trained(way, lines(page)))()


@pytest.mark.parametrize("way", TRAINS, ids=str)
def test_without_them_it_counts_as_often_as_there_are_micro_batches(way):
    """Three of two samples each."""
    same(trained(way, "x = Inject.apply(x, loss)", 6), trained(Plain(), "x = Inject.apply(x, 3 * loss)", 6))
