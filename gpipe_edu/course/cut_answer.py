"""An answer, cut out of a notebook without running it.

The result is what a kernel would have had at the check cell for this one function: its definition, and the statements
that bind or change what it needs, down to the helpers of helpers, in their order. Line numbers stay those of the cells.
"""

from __future__ import annotations

import ast
import hashlib
import json
import pickle
import re
import symtable
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from gpipe_edu.judge.exercise import Exercise, all_exercises
from gpipe_edu.judge.guest.statements import DEFINITIONS, IMPORTS, make, only_defines
from gpipe_edu.process.packing import Packed

from .submitted_notebook import Cell
from .submitted_notebook import cell as make_cell

_TIMERS: Final = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Magics that run the cell as it is."""


class Answer(NamedTuple):
    """One answer as found. state: "cut", "unwritten", "broken" (its cell is not valid Python) or "missing".

    parts: cell, first line and text of each statement that was taken. notes: what a person should know. sources: the
    texts of the cells. defined: whether by a `def` or a `class`, and not by an assignment. earlier: the task of the
    same notebook whose function it builds on, "" for none. on_ours: its parts with our function in place of that one.
    """

    state: str
    function: str
    parts: tuple[tuple[str, int, str], ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    defined: bool = True
    earlier: str = ""
    on_ours: tuple[tuple[str, int, str], ...] = ()

    @property
    def digest(self) -> str:
        """Equal for answers that need to be judged only once."""
        return hashlib.sha256(json.dumps([self.function, self.parts]).encode()).hexdigest()[:20]

    def with_ours(self) -> Answer:
        """The answer with our function in place of the one that it builds on."""
        return self._replace(parts=self.on_ours, earlier="", on_ours=())

    def pack(self) -> Packed:
        """The answer as a packed function, which is made where it is unpacked."""
        body = pickle.dumps(_Made(self.parts, self.function))
        return Packed(self.function, body, dict(self.sources), {}, self.digest)


class _Made:
    """Becomes the function where it is unpickled."""

    def __init__(self, parts: Sequence[tuple[str, int, str]], function: str) -> None:
        self._how = (parts, function)

    def __reduce__(self) -> tuple[Any, ...]:
        return make, self._how


class _Statement(NamedTuple):
    """binds: the names that it binds or whose objects it changes. uses: the names that it needs.

    defines: whether it only defines or assigns.
    """

    cell: Cell
    node: ast.stmt
    text: str
    defines: bool
    binds: frozenset[str]
    uses: frozenset[str]

    @property
    def place(self) -> str:
        return f"{self.cell.name}, line {self.node.lineno}"


def _sources(cells: Sequence[Cell]) -> tuple[tuple[str, str], ...]:
    """By name, the text that an error's lines are read from. All cells of a Python file have one name, and each but the
    first begins with as many empty lines as there are lines above it in the file."""
    lines: dict[str, list[str]] = {}
    for cell in cells:
        above = lines.setdefault(cell.name, [])
        above += cell.source.split("\n")[len(above) :]
    return tuple((name, "\n".join(text)) for name, text in lines.items())


def cut_answer(exercise: Exercise, cells: Sequence[Cell]) -> Answer:
    """The answer to a task from the cells of a notebook."""
    code = [cell for cell in cells if cell.kind == "code"]
    sources = _sources(code)
    check = next((i for i, cell in enumerate(code) if _checks(cell, exercise)), len(code))
    notes, statements, broken = [], [], []
    for index, cell in enumerate(code):
        found, note, where = _parse(cell)
        if note:
            notes.append(f"{cell.name}: {note}")
        if where:
            broken.append((cell, where))
        statements += [(index, statement) for statement in found]
    name = exercise.function
    defines = [(i, one) for i, one in statements if name in one.binds and one.defines]
    before = [(i, one) for i, one in defines if i <= check]
    in_broken = [where for cell, where in broken if cell.grade_id == f"{exercise.cell}-answer" or _defines(cell, name)]
    if not defines or (in_broken and all(_is_stub(one, name) for _, one in defines)):
        if in_broken:
            return Answer("broken", name, (), (*in_broken, *notes), sources)
        return Answer("missing", name, (), (*_in_text_cells(exercise, cells), *notes), sources)
    notes += [f"this cell is no Python and was left out: {where}" for _, where in broken]
    last = before[-1] if before else defines[-1]
    if _is_stub(last[1], name):
        written = [one for one in defines if not _is_stub(one[1], name)]
        if not written:
            return Answer("unwritten", name, (), (*_in_text_cells(exercise, cells), *notes), sources)
        last = written[-1]
    end = max(check, last[0])
    if last[0] > check:
        notes.append(f"{name} comes after its check cell, in {last[1].place}")
    needed = [one for i, one in statements if i <= end]
    parts = _texts(_select_needed(name, needed))
    answer = Answer("cut", name, parts, tuple(notes), sources, isinstance(last[1].node, DEFINITIONS))
    earlier = _earlier(exercise)
    if earlier is None or not any(earlier.function in one.uses for one in _select_needed(name, needed)):
        return answer
    ours = _ours(earlier.key)
    if ours is None:
        return answer
    behind = 1 + max((i for i, one in enumerate(needed) if earlier.function in one.binds), default=-1)
    on_ours = _texts(_select_needed(name, [*needed[:behind], ours, *needed[behind:]]))
    return answer._replace(earlier=earlier.key, on_ours=on_ours)


def _earlier(exercise: Exercise) -> Exercise | None:
    """The task in front of it in its notebook."""
    same = (one for one in all_exercises().values() if one.notebook == exercise.notebook and one.part < exercise.part)
    return next(same, None)


def load_ours(keys: Sequence[str]) -> None:
    """Load what the answers to these tasks may build on, for the processes that are forked from this one."""
    for key in keys:
        if earlier := _earlier(all_exercises()[key]):
            _ours(earlier.key)


@cache
def _ours(key: str) -> _Statement | None:
    """Our function as one statement, with its own imports; None in a copy of the course without solutions."""
    from gpipe_edu.course.building import percent_format, places  # only here: most cuts need nothing of the course

    exercise = all_exercises()[key]
    master = places.ROOT / "solutions" / f"{exercise.notebook}.py"
    if not master.is_file():
        return None
    cells = [
        make_cell("code", percent_format.solution_of(one.source), "ours", _grade_id(one.metadata))
        for one in percent_format.read(master.read_text(encoding="utf-8"))
        if one.kind == "code"
    ]
    source, name = "\n".join(text for _, _, text in cut_answer(exercise, cells).parts), exercise.function
    text = f"{name} = (lambda own: exec({source!r}, own) or own[{name!r}])({{'__name__': 'ours'}})"
    return _Statement(cells[0], ast.parse(text).body[0], text, True, frozenset({name}), frozenset())


def _grade_id(metadata: dict[str, Any]) -> str:
    found: str = metadata.get("nbgrader", {}).get("grade_id", "")
    return found


def may_have(exercise: Exercise, cells: Sequence[Cell]) -> bool:
    """Whether it is worth looking for an answer in these cells."""
    wanted = f"{exercise.cell}-answer"
    return any(cell.grade_id == wanted or _defines(cell, exercise.function) for cell in cells)


@lru_cache(maxsize=10_000)  # most cells are the course's own, and the same in all hand-ins
def _parse(cell: Cell) -> tuple[tuple[_Statement, ...], str, str]:
    """Its statements, a note on what was left out, and, if it is not valid Python, where it fails."""
    text, note = remove_magics(cell.source)
    try:
        return tuple(_statements(cell, text)), note, ""
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f"{cell.name}, line {getattr(error, 'lineno', None) or 1}: {getattr(error, 'msg', None) or error}"
        return (), note, where


def remove_magics(source: str) -> tuple[str, str]:
    """The source as Python, line for line, and a note on what was left out, "" if nothing was."""
    first = source.lstrip().partition("\n")[0].strip()
    if first.startswith("%%"):
        if not first.startswith(_TIMERS):
            return "\n" * source.count("\n"), f"a cell of {first.split()[0]} is no Python, and was left out"
        source = source.replace(first, "", 1)
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        lines = [
            re.sub(r"^(\s*+)([%!?].*|[\w ,.]+=\s*[%!].*|[\w.]+\?+)$", r"\1pass", line) for line in source.split("\n")
        ]
        return "\n".join(lines), ""
    return source, ""


def _checks(cell: Cell, exercise: Exercise) -> bool:
    called = rf"""^check\(\s*["']({re.escape(exercise.key)}|{re.escape(exercise.key[2:].replace("/", "-"))})["']"""
    return cell.grade_id == f"{exercise.cell}-check" or re.search(called, cell.source, re.MULTILINE) is not None


def _defines(cell: Cell, name: str) -> bool:
    line = rf"^[^\S\n]*((def|class|async def) {name}\b|{name}\b.*=)"
    return re.search(line, cell.source, re.MULTILINE) is not None


def _in_text_cells(exercise: Exercise, cells: Sequence[Cell]) -> list[str]:
    """What to tell of an answer in a Markdown or raw cell, which no kernel runs: one keystroke makes it that."""
    line = rf"^[^\S\n]*(async )?(def|class) {exercise.function}\b"
    return [
        f"{exercise.function} is in a {'Markdown' if cell.kind == 'markdown' else 'raw'} cell after {cell.name}, "
        "where it does not run; make that a code cell (Esc, then Y)"
        for cell in cells
        if cell.kind != "code"
        and (cell.grade_id == f"{exercise.cell}-answer" or re.search(line, cell.source, re.MULTILINE))
    ]


def _is_stub(statement: _Statement, name: str) -> bool:
    """Whether its body is only the stub's `raise NotImplementedError`, apart from a docstring."""
    node = statement.node
    if not isinstance(node, DEFINITIONS) or node.name != name:
        return False
    bodies = [node.body]
    if isinstance(node, ast.ClassDef):
        bodies = [part.body for part in node.body if isinstance(part, ast.FunctionDef)]
    return bool(bodies) and all(map(_only_raises, bodies))


def _only_raises(body: list[ast.stmt]) -> bool:
    body = [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Raise):
        return False
    raised = body[0].exc
    raised = raised.func if isinstance(raised, ast.Call) and not raised.args else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _statements(cell: Cell, text: str) -> Iterator[_Statement]:
    tree = ast.parse(text)
    lines = text.encode().split(b"\n")
    for node in tree.body:
        first = _first_line(node)
        own = _text(lines, node, first)
        yield _Statement(
            cell,
            node,
            own,
            only_defines(node),
            frozenset(_bound_names(node)),
            frozenset(_used_names(node, symtable.symtable(own, "", "exec"))),
        )


def _text(lines: list[bytes], node: ast.stmt, first: int) -> str:
    """The lines of a statement; in a line with several statements, its own part only. lines: encoded, as ast counts."""
    last = node.end_lineno or first
    begin = node.col_offset if first == node.lineno else 0  # more than 0 after a semicolon
    if first == last:
        return lines[first - 1][begin : node.end_col_offset].decode(errors="ignore")
    part = [lines[first - 1][begin:], *lines[first : last - 1], lines[last - 1][: node.end_col_offset]]
    return b"\n".join(part).decode(errors="ignore")


def _bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds in its notebook, or whose objects it changes by assignment or by a method."""
    if isinstance(node, DEFINITIONS):
        yield node.name
        return
    if isinstance(node, IMPORTS):
        if getattr(node, "module", "") == "__future__":  # applies to all that follows
            yield "*"
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        return
    defines = isinstance(node, ast.stmt) and only_defines(node)
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store | ast.Del):
            yield child.id
        if isinstance(child, ast.Attribute | ast.Subscript) and isinstance(child.ctx, ast.Store | ast.Del):
            yield _base(child)
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and not defines:
            yield _base(child.func)
        if isinstance(child, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and child.name:
            yield child.name
        if isinstance(child, ast.MatchMapping) and child.rest:
            yield child.rest
        if child is not node and isinstance(child, (*DEFINITIONS, *IMPORTS)):
            yield from _bound_names(child)


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _used_names(node: ast.AST, table: symtable.SymbolTable) -> Iterator[str]:
    """The names that a statement needs from its notebook."""
    outermost = table.get_type() == "module"
    yield from (one.get_name() for one in table.get_symbols() if one.is_global() or (outermost and one.is_referenced()))
    for inner in table.get_children():
        yield from _used_names(ast.Pass(), inner)
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value.isidentifier():
            yield child.value  # an annotation in quotes


def _select_needed(name: str, statements: list[_Statement]) -> list[_Statement]:
    """The statements that `name` needs, in their order."""
    imported = {n for one in statements if isinstance(one.node, IMPORTS) for n in one.binds}
    modules = imported - {
        n for one in statements if one.defines and not isinstance(one.node, IMPORTS) for n in one.binds
    }
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(statements):
        # `np.random.seed(0)` changes a module's state, but matters only to what its own cell does next.
        for bound in one.binds if one.defines else one.binds - modules:
            by_name[bound].append(number)
    chosen: set[int] = set()
    wanted, waiting = {name, "*"}, [name, "*"]
    while waiting:
        for number in by_name[waiting.pop()]:
            if number not in chosen:
                chosen.add(number)
                waiting += statements[number].uses - wanted
                wanted |= statements[number].uses
    return [one for number, one in enumerate(statements) if number in chosen]


def _texts(statements: list[_Statement]) -> tuple[tuple[str, int, str], ...]:
    return tuple((one.cell.name, _first_line(one.node), one.text) for one in statements)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
