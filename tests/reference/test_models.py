"""mlp: which layers, in which order, with which weights."""

import numpy as np

from gpipe_edu import reference as ref
from tests.refusals import refusals


def test_the_layers_come_in_the_documented_order():
    layers = ref.mlp([3, 4, 5, 2], "tanh", norm="layer", dropout=0.5)
    block = [ref.Linear, ref.LayerNorm, ref.Tanh, ref.Dropout]
    assert [type(layer) for layer in layers] == [*block, *block, ref.Linear]
    assert [layer.params["weight"].shape for layer in layers if isinstance(layer, ref.Linear)] == [
        (3, 4),
        (4, 5),
        (5, 2),
    ]


def test_weights_depend_on_the_seed_and_no_two_layers_start_alike():
    one, same, other = (ref.mlp([4, 4, 4], seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one[0].params["weight"], same[0].params["weight"])
    assert not np.array_equal(one[0].params["weight"], other[0].params["weight"])
    assert not np.array_equal(one[0].params["weight"], one[2].params["weight"])
    assert one[0].params["weight"].dtype == np.float64


def test_dropouts_of_a_model_draw_different_masks():
    drops = [layer for layer in ref.mlp([8] * 4, dropout=0.5) if isinstance(layer, ref.Dropout)]
    x = np.ones((10, 8))
    assert not np.array_equal(drops[0].forward(x)[0], drops[1].forward(x)[0])


test_bad_arguments_are_refused = refusals(
    (ValueError, r"sizes is \[64\]", lambda: ref.mlp([64])),
    (TypeError, r"sizes is {}; it must be a list of widths, such as \[64, 128, 10\]", ref.mlp, [64, "64", None]),
    (TypeError, r"sizes\[1\] is 1.5; it must be a whole number", lambda: ref.mlp([64, 1.5])),
    (ValueError, r"sizes\[1\] is 0; it must be at least 1", lambda: ref.mlp([64, 0])),
    (ValueError, "activation is 'gelu'.*relu, tanh", lambda: ref.mlp([64, 10], "gelu")),
    (ValueError, r"norm is 'group'.*layer, batch", lambda: ref.mlp([4, 4, 2], norm="group")),
)
