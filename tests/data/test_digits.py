"""The shipped digits: what they are, and that they are where their licence says."""

from importlib.resources import files

import numpy as np

from gpipe_edu.data import digits, minibatches
from tests.refusals import refusals


def test_digits_are_all_there_and_split_without_overlap():
    data = digits()
    assert data.x_train.shape == (1437, 64)
    assert data.x_test.shape == (360, 64)
    everything = np.concatenate([data.x_train, data.x_test])
    assert (everything.min(), everything.max()) == (0.0, 1.0)
    labels, counts = np.unique(np.concatenate([data.y_train, data.y_test]), return_counts=True)
    assert labels.tolist() == list(range(10))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # as the data set's description says
    again = digits()
    np.testing.assert_array_equal(again.x_test, data.x_test)


def test_the_nearest_neighbour_knows_most_digits_so_images_and_labels_belong_together():
    data = digits()
    distances = ((data.x_test[:, None] - data.x_train[None]) ** 2).sum(axis=2)
    assert (data.y_train[distances.argmin(axis=1)] == data.y_test).mean() > 0.95


def test_the_licence_lies_beside_the_data():
    text = files("gpipe_edu.data").joinpath("README.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in text
    assert "digits.npz" in text


def test_an_epoch_meets_every_sample_once_in_an_order_of_its_own():
    x, y = np.arange(10.0)[:, None], np.arange(10)
    batches = list(minibatches(x, y, 4, seed=3))
    assert [len(part) for part, _ in batches] == [4, 4, 2]
    seen = np.concatenate([labels for _, labels in batches])
    assert sorted(seen.tolist()) == list(range(10))
    np.testing.assert_array_equal(np.concatenate([part for part, _ in batches])[:, 0], seen)
    assert not np.array_equal(seen, np.concatenate([labels for _, labels in minibatches(x, y, 4, seed=4)]))


test_bad_arguments_are_refused = refusals(
    (ValueError, "size is 0", lambda: next(minibatches(np.ones((3, 1)), np.ones(3), 0))),
    (ValueError, "x has 3 samples and y has 2", lambda: next(minibatches(np.ones((3, 1)), np.ones(2), 1))),
)
