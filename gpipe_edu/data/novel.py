"""A novel as a row of numbers: small enough to learn from in a minute, real enough that samples read like something."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpipe_edu.base.validate import whole

Numbers = NDArray[np.int64]


class Text(NamedTuple):
    """`alphabet` holds every character once, sorted; a character's number is its place there.

    train and test are the first nine tenths of the text and the rest, as int64 of shape (characters,).
    """

    alphabet: str
    train: Numbers
    test: Numbers

    def encode(self, words: str) -> Numbers:
        """The numbers of the characters of `words`. Raises ValueError for a character the alphabet does not have."""
        unknown = sorted(set(words) - set(self.alphabet))
        if unknown:
            raise ValueError(f"the text has no {', '.join(map(repr, unknown))}; its characters are {self.alphabet!r}")
        return np.array([self.alphabet.index(character) for character in words], dtype=np.int64)

    def decode(self, numbers: Numbers) -> str:
        """The characters with these numbers, the inverse of `encode`."""
        return "".join(self.alphabet[int(number)] for number in np.asarray(numbers).ravel())


def text() -> Text:
    """The first volume of *Pride and Prejudice*, its lines joined to paragraphs and its _emphasis_ marks left out."""
    stored = files("gpipe_edu.data").joinpath("austen.txt").read_text(encoding="ascii")
    # Lines end where the printed page did, which is not worth learning; a paragraph ends in a blank line.
    joined = re.sub(r"(?<!\n)\n(?!\n)", " ", re.sub(r"\n{3,}", "\n\n", stored.replace("_", ""))).strip()
    alphabet = "".join(sorted(set(joined)))
    place = {character: number for number, character in enumerate(alphabet)}
    numbers = np.array([place[character] for character in joined], dtype=np.int64)
    first_of_test = len(numbers) * 9 // 10
    return Text(alphabet, numbers[:first_of_test], numbers[first_of_test:])


def windows(numbers: Numbers, count: int, length: int, seed: int) -> tuple[Numbers, Numbers]:
    """`count` random pieces of `length` characters and what follows each character: x and y of shape (count, length).

    y[i, t] is the character after x[i, t], which a language model learns to predict from x[i, : t + 1]. The same seed
    gives the same pieces. Raises ValueError for counts below 1, or numbers too few for one piece and what follows it.
    """
    count, length = whole("count", count, 1), whole("length", length, 1)
    if len(numbers) <= length:
        raise ValueError(f"there are {len(numbers)} characters; pieces of {length} need at least {length + 1}")
    starts = np.random.default_rng(seed).integers(0, len(numbers) - length, size=count)
    places = starts[:, None] + np.arange(length)
    return numbers[places], numbers[places + 1]
