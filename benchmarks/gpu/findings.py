"""What a part has found: each finding is on the disk when it is told, so that a part that is ended loses none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Findings:
    """A file with one finding a line.

    pretended: there is no GPU, but a stand-in that computes right numbers in times that say nothing.
    """

    def __init__(self, file: Path, pretended: bool = False) -> None:
        self._file, self.pretended = file, pretended

    def about(self, text: str) -> None:
        """What this part is about."""
        self._tell(kind="about", text=text)

    def figure(self, name: str, value: str) -> None:
        """Something to know; a later value takes the place of an earlier one of this name."""
        self._tell(kind="figure", name=name, text=value)

    def check(self, name: str, text: str, holds: bool) -> None:
        """Something that has to hold."""
        self._tell(kind="check", name=name, text=text, holds=holds)

    def bar(self, name: str, value: float, most: float, unit: str = "", *, timed: bool = False) -> None:
        """A value that may be at most so large. timed: it is a matter of time, of which a stand-in knows nothing."""
        holds = None if timed and self.pretended else value <= most
        text = f"{value:.2g}{unit}, asked for: at most {most:g}{unit}; "
        if holds is None:
            text += "not judged: the GPU is pretended"
        elif unit:
            text += f"{'met' if holds else 'missed'} by {abs(most - value):.2g}{unit}"
        else:
            text += f"met, {value / most:.1g} of it" if holds else f"missed, {value / most:.2g} times as much"
        self._tell(kind="bar", name=name, text=text, holds=holds, value=value, most=most, unit=unit)

    def not_asked(self, name: str, why: str) -> None:
        """Something that cannot be asked here, which does not count as held."""
        self._tell(kind="check", name=name, text=f"not asked: {why}", holds=None)

    def file(self, name: str, content: bytes) -> None:
        """A file that goes with the results, under the card's name."""
        self._file.with_name(name).write_bytes(content)
        self._tell(kind="file", name=name)

    def _tell(self, **finding: Any) -> None:
        mark = {True: "ok    ", False: "FAILED", None: "-     "}[finding["holds"]] if "holds" in finding else "      "
        print(mark, *(finding[key] for key in ("name", "text") if key in finding), flush=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finding) + "\n")


def read(file: Path) -> list[dict[str, Any]]:
    """All findings of a file, without a line that was cut off."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
