"""The shipped novel: what it is, that its licence lies beside it, and what a language model is given of it."""

from importlib.resources import files

import numpy as np
import pytest

from gpipe_edu.data import text, windows


def test_the_novel_is_there_in_paragraphs_and_comes_back_from_its_numbers():
    book = text()
    everything = book.decode(np.concatenate([book.train, book.test]))
    stored = files("gpipe_edu.data").joinpath("austen.txt").read_text(encoding="ascii")
    assert everything.split() == stored.replace("_", "").split()  # no word is lost, none is added
    assert everything.startswith("PRIDE AND PREJUDICE\n\nBy Jane Austen\n\nChapter 1\n\nIt is a truth universally")
    assert "must be in want of a wife.\n\nHowever" in everything
    assert "\n\n\n" not in everything
    assert everything.replace("\n\n", "").count("\n") == 0
    assert len(everything.encode()) < 300_000
    assert len(book.test) == pytest.approx(0.1 * len(everything), abs=1)
    assert (book.train.dtype, book.train.ndim) == (np.int64, 1)


def test_numbers_are_places_in_the_alphabet():
    book = text()
    assert book.alphabet == "".join(sorted(set(book.alphabet)))
    assert set(np.unique(book.train)) <= set(range(len(book.alphabet)))
    assert book.decode(book.encode("My dear Mr. Bennet")) == "My dear Mr. Bennet"
    assert book.encode("").tolist() == []
    with pytest.raises(ValueError, match=r"the text has no '@', '€'"):
        book.encode("a€b@")


def test_the_licence_lies_beside_the_text():
    readme = files("gpipe_edu.data").joinpath("README.md").read_text(encoding="utf-8")
    assert "austen.txt" in readme
    assert "public domain" in readme


def test_what_follows_each_character_is_the_target():
    numbers = np.arange(100, 200)
    x, y = windows(numbers, 500, 7, seed=1)
    assert x.shape == y.shape == (500, 7)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(np.diff(x, axis=1), 1)
    assert x[:, 0].min() == 100  # the first piece and the last one are drawn, too
    assert y[:, -1].max() == 199
    np.testing.assert_array_equal(windows(numbers, 500, 7, seed=1)[0], x)
    assert not np.array_equal(windows(numbers, 500, 7, seed=2)[0], x)
    only, after = windows(np.arange(4), 2, 3, seed=0)
    np.testing.assert_array_equal(only, [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(after, [[1, 2, 3]] * 2)


@pytest.mark.parametrize(
    ("count", "length", "error", "says"),
    [(0, 3, ValueError, "count is 0"), (1, 0, ValueError, "length is 0"), (1, 10, ValueError, "at least 11")],
)
def test_bad_arguments_are_refused(count, length, error, says):
    with pytest.raises(error, match=says):
        windows(np.arange(10), count, length, seed=0)
