"""The inputs that answers are judged with: drawn once, so that nobody can guess them, and the same for everybody.

The pages of feedback name them. So who hands in later has others.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpipe_edu.base.atomic_write import write_whole

_NAME: Final = "seeds.json"


class Seeds:
    """`count` seeds for a class, kept in the folder with its marks. Raises OSError; ValueError for a damaged file."""

    def __init__(self, out: Path, count: int) -> None:
        self._path, self._count = out / _NAME, count
        self._known: dict[str, list[int]] = {}
        if self._path.exists():
            try:
                found = json.loads(self._path.read_text(encoding="utf-8"))
                known = {"": found} if isinstance(found, list) else found
                self._known = {str(name): [int(seed) for seed in seeds] for name, seeds in known.items()}
            except (ValueError, TypeError, AttributeError):
                raise ValueError(
                    f"{self._path} is damaged; it has lists of numbers. Delete it, and everybody is judged anew"
                ) from None
        self.of("")  # before anything is judged, as it may not be possible to write them

    @staticmethod
    def give(out: Path, seeds: Sequence[int]) -> None:
        """Let the class with marks in `out` have these. Raises OSError."""
        write_whole(out / _NAME, json.dumps({"": list(seeds)}) + "\n")

    def of(self, student: str) -> tuple[int, ...]:
        """The seeds of a late student, or of the class, "". Drawn when they are first asked for. Raises OSError."""
        known = self._known.setdefault(student, [])
        if len(known) < self._count:
            known += [secrets.randbelow(10**6) for _ in range(self._count - len(known))]
            write_whole(self._path, json.dumps(self._known, ensure_ascii=False) + "\n")
        return tuple(known[: self._count])
