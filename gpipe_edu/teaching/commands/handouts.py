"""`personal`, `quiz` and `kit`: what a teacher hands out."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Annotated

import typer

from gpipe_edu.base.atomic_write import write_whole
from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import plural
from gpipe_edu.course.submitted_notebook import Refused, bytes_of, refusing
from gpipe_edu.teaching.grading import marks_tables
from gpipe_edu.teaching.grading.submissions import file_name
from gpipe_edu.teaching.handouts import kit, quiz, quiz_qti
from gpipe_edu.teaching.handouts import personal as own


def run(
    roster: Annotated[Path, typer.Argument(metavar="ROSTER", help="A CSV of participants.")],
    sheets: Annotated[Path, typer.Argument(metavar="SHEETS", help="The folder for a page for each of them.")],
    secret: Annotated[Path, typer.Option(help="A file with a word that nobody else knows.")],
    count: Annotated[int, typer.Option(min=1, max=6, help="Puzzles on a sheet.")] = 3,
    answers: Annotated[Path | None, typer.Option(help="Mark the answers in this folder instead.")] = None,
) -> int:
    """Write a sheet of puzzles for each student, with a proven best that no textbook schedule reaches; or mark them."""
    return _mark(sheets, answers) if answers else _write_sheets(roster, sheets, secret, count)


def _write_sheets(roster: Path, folder: Path, secret: Path, count: int) -> int:
    """Write a sheet for each student in the roster who has none yet."""
    with bad_arguments():
        word = secret.read_text(encoding="utf-8").strip()
        if len(word) < 8:
            raise ValueError(f"{secret} holds {len(word)} characters; a secret has 8 or more, and stays with you")
        students = _students(roster)
        folder.mkdir(parents=True, exist_ok=True)
        asked = own.read(folder / own.FILE)
        new = [name for name in students if name not in asked]
        taken = {one.frame for found in asked.values() for one in found}
        for done, name in enumerate(new, 1):
            asked[name] = own.puzzles(word, name, count, taken)
            taken |= {one.frame for one in asked[name]}
            write_whole(folder / own.FILE, own.as_json(asked))
            print(f"{done} of {len(new)} sheets", flush=True)
        named: set[str] = set()
        for name in sorted(asked):
            write_whole(folder / f"{file_name(name, named)}.html", own.sheet(name, asked[name]))
    print(f"{plural(len(asked), 'sheet')} in {folder}. Keep {own.FILE} and the secret; hand out the pages.")
    return 0


def _mark(folder: Path, answers: Path) -> int:
    """Mark the answers, text files named like the sheets, and write personal.csv beside the sheets."""
    with bad_arguments():
        asked = own.read(folder / own.FILE)
        if not asked:
            raise ValueError(f"there is no {own.FILE} in {folder}; it is written with the sheets")
        if not answers.is_dir():
            raise ValueError(f"{answers} is no folder; it holds a text file for each student, named as the sheet is")
        rows, taken = [["student", "share", "remark"]], set[str]()
        for name in sorted(asked):
            share, told = _share_earned(answers / f"{file_name(name, taken)}.txt", asked[name])
            rows.append([name, f"{share:.3f}", told])
        text = io.StringIO(newline="")
        csv.writer(text).writerows([marks_tables.safe(cell) for cell in row] for row in rows)
        write_whole(folder / "personal.csv", text.getvalue())
    print(f"{folder / 'personal.csv'}: {plural(len(rows) - 1, 'student')}.")
    return 0


def _share_earned(path: Path, asked: list[own.PersonalPuzzle]) -> tuple[float, str]:
    """The share that a student's answers earn, and a remark; 0 and the reason for a file that can't be marked."""
    try:
        with refusing(path.name):
            given = own.answers(bytes_of(path, 100_000).decode(errors="replace")) if os.path.lexists(path) else []
            given += [""] * len(asked)
            found = [own.share_earned(one, text) for one, text in zip(asked, given, strict=False)]
    except Refused as error:
        return 0.0, f"refused: {error}"
    share = sum(part for part, _ in found) / len(found)
    return share, " ".join(f"{number}: {words}" for number, (_, words) in enumerate(found, 1))


def write_quiz(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The GIFT file to write; QTI where it ends in .zip.")],
    items: Annotated[
        str, typer.Option(help="inventory, a lesson such as 03, or predictions' keys with commas.")
    ] = "inventory",
) -> int:
    """Write predictions as a quiz for Moodle (GIFT) or Canvas (QTI); inventory: twelve for before and after a unit."""
    with bad_arguments():
        keys, title = quiz.keys(items), f"gpipe_edu, {items}"
        write_whole(path, quiz_qti.qti(keys, title) if path.suffix.lower() == ".zip" else quiz.gift(keys, title))
    print(f"{path}: {plural(len(keys), 'question')}. Have the platform shuffle the options.")
    return 0


def write_kit(path: Annotated[Path, typer.Argument(metavar="FILE", help="The zip archive to write.")]) -> int:
    """Write the course without its solutions, for students."""
    with bad_arguments():
        count = kit.write(path)
    print(f"{path}: {plural(count, 'file')}. Unpacked, `make lab` opens the course.")
    return 0


def _students(roster: Path) -> list[str]:
    """The names in a roster: its first column, or first and last name where it has those."""
    reader = csv.DictReader(io.StringIO(roster.read_bytes().decode("utf-8-sig", errors="replace"), newline=""))
    columns = [name for name in reader.fieldnames or [] if name]
    if not columns:
        raise ValueError(f"{roster} is empty; it is a CSV whose first line names the columns")
    both = [name for name in columns if name.casefold() in ("first name", "last name", "surname")]
    chosen = both if len(both) == 2 else columns[:1]
    names = [" ".join((row[name] or "").strip() for name in chosen).strip() for row in reader]
    return list(dict.fromkeys(filter(None, names)))
