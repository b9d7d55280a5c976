"""One door for what people have of a pipeline: it finds out what a file is, says so, and opens it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from gpipe_edu.base.bounded import TextOf, TooMuchError, in_one_sentence, name_of, read_bytes
from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import join_words, plural, shown
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.notation import MOST_LETTERS
from gpipe_edu.schedule.reading import looks_like_schedule, parse_any

from .. import trace
from ..timeline import Timeline
from .compared import said_of_exchanges
from .jobs import job_of_object, job_of_text
from .pp_timer import SECONDS, Timed, in_pipelines, looks_like_timer, read_timer
from .ranks import Profile, Rank, Together, lacking, pipelines, rank_of, said_of, whole_steps
from .recording import MARKS, Recording, Unreadable, recordings
from .refusals import PROFILE, MissingRankError, NoRunError, what_lacks
from .trace_file import CutOffError, TraceFile, base_of, distributed_info

Files = Path | str | Iterable[Path | str]

_TRACES: Final = (".json", ".json.gz", ".trace", ".trace.gz")
_ORDERS: Final = (".csv", ".txt")
_BINARY: Final = {
    b"PK\x03\x04": "a zip archive, as torch.save writes",
    b"SQLite format 3": "a database of Nsight Systems",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF",
    b"\xff\xfe": "a text in UTF-16 (save it as UTF-8)",
}
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*[\]{])")
"""How JSON with objects begins: lists of numbers are orders, of ops or of calls."""

_LEFT_OUT: Final = "left out: "

_KEY: Final = re.compile(rb'"([A-Za-z_]+)"\s*+:')

_MOST_TEXT: Final = 4 * MOST_LETTERS
"""Bytes of an order of ops."""

_MICROSECONDS: Final = 1e-6


@dataclass(frozen=True)
class Opened:
    """What was in the files: an order of ops, or the steps of one pipeline, from the first to the last.

    said: what they were taken for, a line each. number: which of the steps was asked for. doubts: why its chart may not
    be what happened, a line each.
    """

    said: tuple[str, ...]
    schedule: Schedule | None = None
    steps: tuple[Timeline, ...] = ()
    number: int = -1
    doubts: tuple[str, ...] = ()

    @property
    def found(self) -> Schedule | Timeline:
        """The order, or the step that was asked for."""
        return self.schedule if self.schedule is not None else self.steps[self.number]


def load(files: Files, *, step: int | None = None, replica: int | None = None, name: str = "") -> Schedule | Timeline:
    """The order of ops, or the measured step, that is in a file, a folder, or several files in any order.

    An order is text: a line per device, as `str(schedule)` writes it, or PyTorch's pipeline CSV. Measured steps come
    from traces of torch.profiler, `.json` or `.json.gz`, one for each rank or merged; from our own traces; and from the
    files of a pipeline timer for Megatron-LM. An op's time is that of its GPU kernels; without a GPU it goes from the
    end of its wait, where that shows, to its own end, or else from its first operation to its last; in a profile with
    neither it is the op's mark, which includes the wait for its message. The timeline's name says which.

    step: which of the whole steps, from 0; by default the last. replica: which of several pipelines, from 0.

    `notes` of the timeline say what was taken for what. If its chart may not be what happened, as where clocks
    disagree, its name says so, too.

    Raises ValueError for what is none of these, and for what a chart would show wrong: the error says what the file is,
    what it lacks, and the lines that would put that there. Raises OSError for a file that can't be read.
    """
    return open_files(files, step=step, replica=replica, name=name).found


def read_profiles(files: Sequence[Path | str], name: str = "profile") -> Timeline:
    """The last whole step in the traces that the ranks of one pipeline exported: `load`, for these alone.

    Raises ValueError as `load` does, and for files of something else.
    """
    if isinstance(files, (str, Path)) or not files:
        raise ValueError("give a list of files, the profile of each rank of a pipeline")
    found = load(files, name=name)
    if not isinstance(found, Timeline):
        raise ValueError(f"{Path(files[0]).name} is an order of ops, and no trace; `ge.load` opens it")
    return found


def open_files(
    files: Files,
    *,
    step: int | None = None,
    replica: int | None = None,
    name: str = "",
    watch: Callable[[int], None] | None = None,
) -> Opened:
    """`load`, with all that can be said of the files. watch: called with how many of their bytes have been read."""
    with in_one_sentence("what was given"):
        return _open_files(files, step, replica, name, watch)


def _open_files(
    files: Files, step: int | None, replica: int | None, name: str, watch: Callable[[int], None] | None
) -> Opened:
    paths, folder, said = _paths(files)
    found: list[_Content] = []
    nameless: list[_NoOpsError] = []
    broken: list[str] = []
    read = _Read(watch)
    for path in paths:
        try:
            found.append(_look(path, read.of_file))
        except _SomethingElseError as error:
            if not folder:
                raise
            said.append(f"{_LEFT_OUT}{error.what}")
            broken += [error.what] * error.broken
        except _NoOpsError as error:
            if not folder:
                raise
            nameless.append(error)
        read.before += path.stat().st_size
    if folder and any(isinstance(content, _Trace) for content in found):
        said += [f"{_LEFT_OUT}{error.what}" for error in nameless]
        said += [f"{_LEFT_OUT}{one.file} is no trace" for one in found if isinstance(one, _Order)]
        found = [content for content in found if not isinstance(content, _Order)]
    elif nameless:
        raise nameless[0]
    if folder and len(found) > 1:  # one alone is read, so that its error says what is wrong in it
        other = [one for one in found if isinstance(one, _Order) and not looks_like_schedule(one.text)]
        said += [f"{_LEFT_OUT}{one.file} is a text without ops" for one in other]
        found = [content for content in found if content not in other]
    if not found:
        raise ValueError(f"{folder} holds no file that can be opened, {join_words(said, most=3)}. {_WANTED}")
    kinds = {type(content) for content in found}
    if len(kinds) > 1 or (len(found) > 1 and not kinds & {_Trace, Timed}):
        listed = join_words((f"{content.file} is {_WHAT[type(content)]}" for content in found), most=3)
        raise ValueError(f"{listed}: of these one can be opened at a time")
    label = name or folder or shown(paths[0].name.removesuffix(".gz").rpartition(".")[0], 60)
    first = found[0]
    if isinstance(first, _Order):
        _expect_unset(first.file, step=step, replica=replica)
        try:
            schedule = parse_any(first.text, label)
        except ValueError as error:
            raise ValueError(f"{first.file}, a text read as an order of ops: {error}") from None
        return Opened((*said, f"{first.file}: {_WHAT[_Order]}"), schedule)
    if isinstance(first, _Own):
        _expect_unset(first.file, step=step, replica=replica)
        return Opened((*said, f"{first.file}: {_WHAT[_Own]}"), steps=(first.timeline,))
    doubts = [f"ranks may be missing: {join_words(broken, most=3)}"] if broken else []
    try:
        return _measured(found, label, step, replica, said, doubts)
    except MissingRankError as error:
        left_out = broken or [line.removeprefix(_LEFT_OUT) for line in said if line.startswith(_LEFT_OUT)]
        beside = f". Of the files there, {join_words(left_out, most=3)}" if left_out else ""
        raise MissingRankError(f"{error}{beside}") from None


def measured_run(paths: Sequence[Path]) -> Timeline | None:
    """The last whole step that other programs have measured; None if a file holds something else.

    Raises ValueError as `load` does for a run that a chart would show wrong.
    """
    with in_one_sentence("what was given"):
        try:
            found = [_look(path) for path in paths]
        except NoRunError:
            return None
        if any(isinstance(content, (_Order, _Own)) for content in found):
            return None
        label = found[0].file if len(found) == 1 else f"{len(found)} files"
        return _measured(found, label, None, None, [], []).steps[-1]


def load_trace(path: Path) -> Timeline:
    """The timeline in one trace, ours or another program's. Raises ValueError for what is neither."""
    try:
        return trace.load(path)
    except ValueError:
        measured = measured_run([path])
        if measured is None:
            raise
        return measured


class _Read:
    """How many bytes of several files have been read, told to who watches."""

    def __init__(self, watch: Callable[[int], None] | None) -> None:
        self.before, self._watch = 0, watch

    def of_file(self, read: int) -> None:
        if self._watch:
            self._watch(self.before + read)


class _SomethingElseError(NoRunError):
    """A file of none of the kinds that can be opened. what: what it is, in words. takes: what takes it instead. broken:
    whether it may have been a trace that was to be one of these."""

    def __init__(self, what: str, takes: str = "", broken: bool = False) -> None:
        super().__init__(f"{what}, {f'and no run: {takes}' if takes else _NOTHING}")
        self.what, self.broken = what, broken


class _NoOpsError(NoRunError):
    """A trace without ops of a pipeline. what: what it is, in words."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.what = f"{name} is a trace without ops of a pipeline"


def _job(path: Path, job: tuple[str, str]) -> _SomethingElseError:
    what, takes = job
    return _SomethingElseError(f"{name_of(path)} is {what}", takes)


class _Order(NamedTuple):
    file: str
    text: str


class _Own(NamedTuple):
    file: str
    timeline: Timeline


class _Trace(NamedTuple):
    file: str
    rank: int | None
    pipeline: tuple[int, ...]
    base: int
    world: int
    recordings: list[Recording]


_Content = _Order | _Own | _Trace | Timed

_WHAT: Final = {
    _Order: "an order of ops, a line for each device",
    _Own: "a trace that gpipe_edu saved",
    _Trace: "a trace of torch.profiler",
    Timed: "times of a pipeline timer for Megatron-LM",
}

_WANTED: Final = (
    "Open an order of ops, torch.profiler's traces of all ranks, a pipeline timer for Megatron-LM, or what gpipe_edu "
    "saved. A profile of your own pipeline is two lines around a step:"
    + PROFILE
    + '\n    found.export_chrome_trace(f"rank{rank}_trace.json")'
)

_NOTHING: Final = f"and nothing that can be opened here. {_WANTED}"


def _paths(files: Files) -> tuple[list[Path], str, list[str]]:
    """The files, the name of their folder if that was given, and what to say of those that were not taken."""
    given = [Path(files)] if isinstance(files, (str, Path)) else [Path(file) for file in files]
    if not given:
        raise ValueError("no file was given: name files, or a folder")
    if len(given) > 1 or not given[0].is_dir():
        if folder := next((path for path in given if path.is_dir()), None):
            raise ValueError(f"{folder} is a folder, among other files: give one folder, or files")
        return given, "", []
    top, said = given[0], []
    while True:
        there = [path for path in sorted(top.iterdir(), key=_natural) if not path.name.startswith(".")]
        paths = [path for path in there if path.is_file() and path.name.lower().endswith(_TRACES)]
        paths = paths or [path for path in there if path.is_file() and path.suffix.lower() in _ORDERS]
        paths = paths or [path for path in there if path.is_file()]
        folders = [path for path in there if path.is_dir()]
        if paths or not folders:
            break
        if len(folders) > 1:
            said.append(f"of the {len(folders)} folders in {top.name} this is the last, {folders[-1].name}")
        top = folders[-1]
    if not paths:
        raise ValueError(f"{given[0]} is an empty folder. {_WANTED}")
    return paths, top.resolve().name, said


def _natural(path: Path) -> list[object]:
    """A key by which rank2 comes before rank10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path.name)]


def _look(path: Path, watch: Callable[[int], None] | None = None) -> _Content:
    """What a file is. Raises _SomethingElseError for what can't be opened, ValueError for what lacks something."""
    head, name = _head(path), name_of(path)
    maybe_trace = path.name.lower().endswith(_TRACES)
    if not head.strip():
        raise _SomethingElseError(f"{name} is empty", broken=maybe_trace)
    what = next((what for begin, what in _BINARY.items() if head.startswith(begin)), "")
    if not what and _JSON.match(head) and b"\0" not in head:
        return _json(path, watch)
    if not what and b"\0" not in head:
        try:
            data = read_bytes(path, _MOST_TEXT)
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
        except TooMuchError:
            what = f"a text of more than {_MOST_TEXT // 10**6} MB"
        else:
            if not looks_like_schedule(text) and (job := job_of_text(path, text)):
                raise _job(path, job)
            return _Order(name, text)
    raise _SomethingElseError(f"{name} is {what or 'no text'}", broken=maybe_trace)


def _head(path: Path) -> bytes:
    with TextOf(path) as text:
        try:
            return text.head()[:4096]
        except (EOFError, zlib.error):
            raise CutOffError(
                f"{name_of(path)} is compressed by gzip and was cut off or changed: copy it anew"
            ) from None


def _json(path: Path, watch: Callable[[int], None] | None) -> _Content:
    file = TraceFile(path, watch)
    try:
        found = list(recordings(file))
    except Unreadable as error:
        found, lack = [], error
    except CutOffError:
        keys = set(_KEY.findall(_head(path)))
        if not file.has_events and (job := job_of_object(path, {key.decode() for key in keys})):
            raise _job(path, job) from None  # settings with comments, such as DeepSpeed takes
        raise
    about = file.about
    own = about.get("otherData")
    if isinstance(own, dict) and own.get("program") == trace.PROGRAM:
        return _Own(file.name, trace.load(path))
    if not file.has_events:
        if looks_like_timer(about):
            return read_timer(path, about)
        if job := job_of_object(path, about):
            raise _job(path, job)
        listed = join_words((f"“{shown(key, 20)}”" for key in about), most=3) or "nothing"
        raise _SomethingElseError(f"{file.name} is JSON of something else, an object with {listed}")
    if not found:
        words = what_lacks(file.name, lack.lack, **lack.words)
        raise _NoOpsError(file.name, words) if lack.lack == "no-ops" else ValueError(words)
    distributed = distributed_info(about)
    rank, pipeline = rank_of(path, distributed) if len(found) == 1 else (None, ())
    world = distributed.get("world_size", 0)
    return _Trace(file.name, rank, pipeline, base_of(about), world if isinstance(world, int) else 0, found)


def _measured(
    found: Sequence[_Content], label: str, step: int | None, replica: int | None, said: list[str], doubts: list[str]
) -> Opened:
    if isinstance(found[0], _Trace):
        of_ranks = [content for content in found if isinstance(content, _Trace)]
        return _profiles(of_ranks, label, step, replica, said, doubts)
    return _timers([content for content in found if isinstance(content, Timed)], label, step, replica, said, doubts)


def _profiles(
    traces: Sequence[_Trace], label: str, step: int | None, replica: int | None, said: list[str], doubts: list[str]
) -> Opened:
    first = min(one.base for one in traces)
    profiles = [
        Profile(one.file, one.rank, one.pipeline, (one.base - first) / 1e3, recording)
        for one in traces
        for recording in one.recordings
    ]
    found = pipelines(profiles)
    most = max(one.world for one in traces)
    complete = [ranks for ranks in found if not lacking(ranks, most)]
    asked = found[_index("replica", replica or 0, len(found))]
    chosen = complete[0] if replica is None and complete else asked
    if lack := lacking(chosen, most):
        raise MissingRankError(lack)
    how = sorted({rank.by for rank in chosen})
    by = f"ops by {join_words(how, last=' and ')}"
    of = _of_replicas(len(found), found.index(chosen))
    if not chosen[0].pipeline and most > len(chosen):
        doubts = [
            *doubts,
            f"ranks may be missing: of {most} that ran {len(chosen)} are here, and no process group called mesh_pp "
            "says whether these are a whole pipeline",
        ]
    steps, others = whole_steps(chosen, f"{label}{of}: {by}", _MICROSECONDS)
    said = [*said, f"{said_of(chosen)}{of}; {by}", *[_MARKS_HOLD_WAITS] * (MARKS in how)]
    return _chosen(steps, others, step, said, doubts)


_MARKS_HOLD_WAITS: Final = (
    "no operation is inside the ops' marks, so the wait for a message counts as work, and the bubble is larger than "
    "shown: profile with ProfilerActivity.CPU"
)


def _timers(
    timed: Sequence[Timed], label: str, step: int | None, replica: int | None, said: list[str], doubts: list[str]
) -> Opened:
    found = in_pipelines(timed)
    number = _index("replica", replica or 0, len(found))
    ranks = [Rank(one.file, one.rank, MARKS, [one.step]) for one in found[number]]
    of = _of_replicas(len(found), number)
    steps, others = whole_steps(ranks, f"{label}{of}: ops by Megatron's timer", SECONDS)
    return _chosen(steps, others, step, [*said, f"{_WHAT[Timed]}, {plural(len(ranks), 'rank')}{of}"], doubts)


def _of_replicas(count: int, number: int) -> str:
    return f", replica {number} of {count}" if count > 1 else ""


def _chosen(
    steps: Sequence[Together], others: str, step: int | None, said: Sequence[str], doubts: Sequence[str]
) -> Opened:
    number = len(steps) - 1 if step is None else _index("step", step, len(steps))
    said_of_step, noted = [], []
    for index, one in enumerate(steps):
        which = f"{len(steps)} whole steps; this is step {index}" if len(steps) > 1 else "one whole step"
        told = (*said, which, *filter(None, [others, said_of_exchanges(one.timeline)]))
        name = "; ".join([one.timeline.name, *(doubt.partition(":")[0] for doubt in (*doubts, *one.doubts))])
        noted.append(one.timeline.with_name(name, notes=(*told, *doubts, *one.doubts)))
        said_of_step.append(told)
    return Opened(said_of_step[number], None, tuple(noted), number, (*doubts, *steps[number].doubts))


def _index(what: str, number: int, count: int) -> int:
    if not 0 <= whole(what, number, 0) < count:
        raise ValueError(f"{what} is {number}; the files have {plural(count, what)}, from 0 to {count - 1}")
    return number


def _expect_unset(file: str, **given: int | None) -> None:
    for what, number in given.items():
        if number is not None:
            raise ValueError(f"{what} is {number}, and {file} has no {what}s to choose from: leave it out")
