"""Profiles of ranks, together: which of them form a pipeline, which of their steps belong together, and by how much
their clocks disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from gpipe_edu.base.words import join_words, plural
from gpipe_edu.schedule import Op, Schedule

from ..timeline import Message, Pause, Span, Timeline
from ..trace import MOST
from .compared import compare_ranks
from .op_names import Named, Transfer
from .recording import KERNELS, MARKS, OPERATIONS, Recording
from .steps import Step, steps_of

_PIPELINE: Final = re.compile(r"(^|[^a-z])(pp|pipe|pipeline)([^a-z]|$)", re.IGNORECASE)
"""What a process group of a pipeline is called: mesh_pp by a device mesh, PIPELINE_MODEL_PARALLEL_GROUP by Megatron."""

_IN_NAME: Final = re.compile(r"rank[-_]?(\d{1,9})", re.IGNORECASE | re.ASCII)

_MESH: Final = """
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "pp"))
    stage = PipelineStage(module, k, K, device, group=mesh.get_group("pp"))"""


class Profile(NamedTuple):
    """What a file holds of one rank. rank: None if nothing tells it. pipeline: all ranks of its pipeline, in their
    order, () if that is not said. base: how much later than the others' its times begin, in microseconds."""

    file: str
    rank: int | None
    pipeline: tuple[int, ...]
    base: float
    recording: Recording


class Rank(NamedTuple):
    """One rank of a pipeline. name: its files'. rank: None if nothing tells it. by: what its ops were timed by.
    pipeline: all ranks of its pipeline, () if that is not said. beside: stages with which it exchanged messages."""

    name: str
    rank: int | None
    by: str
    steps: Sequence[Step]
    pipeline: tuple[int, ...] = ()
    beside: frozenset[int] = frozenset()

    @property
    def stages(self) -> set[int]:
        """The stages that it has run."""
        return {placed.op.stage for step in self.steps for placed in step.ops}


def _rank(profiles: Sequence[Profile], position: int) -> Rank:
    """A rank from one file, or from several of different steps."""
    name = join_words(dict.fromkeys(one.file for one in profiles), most=3, last=" and ")
    steps: list[Step] = []
    for one in sorted(profiles, key=lambda one: one.base + one.recording.ops[0].start):
        later = one.base
        ops = [
            op._replace(start=later + op.start, end=later + op.end, mark=later + op.mark) for op in one.recording.ops
        ]
        sent = [
            of._replace(start=later + of.start, end=later + of.end, mark=later + of.mark)
            for of in one.recording.transfers
        ]
        found = steps_of(ops, sent, lambda named: _placed(named, position))
        if steps and found[0].start < steps[-1].end:
            raise ValueError(
                f"{name} are of the same rank, {one.rank}, and of the same time: give each file once, all of one run"
            )
        steps += found
    beside = frozenset[int]().union(*(one.recording.beside for one in profiles))
    by = _worst(one.recording.by for one in profiles)
    return Rank(name, profiles[0].rank, by, steps, profiles[0].pipeline, beside)


def _placed(named: Named, position: int) -> Op:
    return Op(named.kind, named.micro_batch, position if named.stage is None else named.stage)


def _worst(ways: Iterable[str]) -> str:
    order = (KERNELS, OPERATIONS, MARKS)
    return max(ways, key=order.index)


def rank_in_name(file: Path) -> int | None:
    """The rank that a file's name tells, None if it tells none."""
    match = _IN_NAME.search(file.name)
    return int(match[1]) if match else None


def rank_of(file: Path, distributed: Mapping[str, Any]) -> tuple[int | None, tuple[int, ...]]:
    """The rank that exported a trace, None if nothing tells it, and the ranks of its pipeline, () if nothing does."""
    rank = distributed.get("rank")
    if not isinstance(rank, int):
        rank = rank_in_name(file)
    groups = distributed.get("pg_config")
    mine = [
        (group.get("pg_desc") != "mesh_pp", len(group["ranks"]), tuple(group["ranks"]))
        for group in (groups if isinstance(groups, list) else [])
        if isinstance(group, dict)
        and isinstance(group.get("pg_desc"), str)
        and _PIPELINE.search(group["pg_desc"])
        and isinstance(group.get("ranks"), list)
        and rank in group["ranks"]
        and all(isinstance(one, int) for one in group["ranks"])
    ]
    return rank, min(mine)[2] if mine else ()  # Megatron's other groups, which pipelines share, are larger


def pipelines(profiles: Sequence[Profile]) -> list[list[Rank]]:
    """The ranks of each pipeline, in the order of their stages; pipelines in the order of their ranks.

    Raises ValueError if the files are of several pipelines and do not say which rank is of which.
    """
    grouped: dict[tuple[int, ...], dict[object, list[Profile]]] = {}
    for number, one in enumerate(profiles):
        key = number if one.rank is None else ("rank", one.rank)
        grouped.setdefault(one.pipeline, {}).setdefault(key, []).append(one)
    found = []
    for group, of_ranks in sorted(grouped.items()):
        if len(of_ranks) > MOST["devices"]:
            raise ValueError(
                f"the files have {len(of_ranks):,} ranks of a pipeline; opened are at most {MOST['devices']:,}"
            )
        known = sorted({rank for of in of_ranks.values() for one in of if (rank := one.rank) is not None})
        order = list(group) or known
        if len(known) < len(of_ranks) and any(op.op.stage is None for one in profiles for op in one.recording.ops):
            raise ValueError(
                f"{join_words((one.file for one in profiles), most=3)}: ops are called “Forward 0”, without their "
                "stage, and no file says which rank it is of. Name files by their ranks, such as rank0_trace.json"
            )
        ranks = [_rank(of, order.index(of[0].rank) if of[0].rank is not None else 0) for of in of_ranks.values()]
        found.append(sorted(ranks, key=lambda rank: min(rank.stages)))
        if not group:
            _expect_one_pipeline(found[-1])
    _compare([rank for ranks in found for rank in ranks])
    return found


def _compare(ranks: Sequence[Rank]) -> None:
    """Let each step know its exchanges: who got most of a stage's tokens shows only among ranks of all pipelines."""
    given = [
        [{each.op: each.exchanged for each in step.ops if each.exchanged} for step in rank.steps] for rank in ranks
    ]
    for rank, found in zip(ranks, compare_ranks(given), strict=True):
        for step, exchanges in zip(rank.steps, found, strict=True):
            step.exchanges = exchanges


def _expect_one_pipeline(ranks: Sequence[Rank]) -> None:
    of: dict[int, Rank] = {}
    for rank in ranks:
        for stage in sorted(rank.stages):
            if stage in of:
                raise ValueError(
                    f"{of[stage].name} and {rank.name} both have stage {stage}, so they are of two replicas of a "
                    "pipeline, or of one tensor group, and no process group called mesh_pp says which ranks form a "
                    f"pipeline: give the files of one, or name the group, as a device mesh does:{_MESH}"
                )
            of[stage] = rank


def lacking(ranks: Sequence[Rank], world: int) -> str:
    """What the files lack of a pipeline, a rank of it or a stage; "" if nothing. world: how many ranks ran, by them."""
    group = ranks[0].pipeline
    if gone := [rank for rank in group if rank not in {one.rank for one in ranks}]:
        return (
            f"the pipeline has ranks {join_words(group)}, and no file is of rank {gone[0]}: give the files of all of "
            "them, each exported under a name of its own, such as\n"
            '    found.export_chrome_trace(f"rank{torch.distributed.get_rank()}_trace.json")'
        )
    stages = set[int]().union(*(rank.stages for rank in ranks))
    beside = frozenset[int]().union(*(rank.beside for rank in ranks)) if world > len(ranks) else frozenset[int]()
    if missing := (set(range(max(stages))) | beside) - stages:
        return f"no file has stage {min(missing)}: give the profiles of all ranks of the pipeline"
    return ""


class Together(NamedTuple):
    """One step of all ranks: as a timeline, and why its chart may not be what happened, a line each. apart: whether
    clocks contradict the order, so that times don't tell which steps belong together."""

    timeline: Timeline
    doubts: tuple[str, ...]
    apart: bool


def whole_steps(ranks: Sequence[Rank], name: str, unit: float) -> tuple[list[Together], str]:
    """The steps that are whole on all ranks, from the first to the last, and what to say of others, "" if there are
    none. unit: seconds of one unit of the ranks' time.

    Steps that ran at the same time belong together, as long as clocks agree; else the first of each rank, the second
    and so on, if all ranks have as many.

    Raises ValueError if there is no whole step; it says what the last one lacks.
    """
    trained = any(not step.forward_only for rank in ranks for step in rank.steps)
    candidates = [[step for step in rank.steps if not step.lack and step.forward_only != trained] for rank in ranks]
    for rank, of in zip(ranks, candidates, strict=True):
        if not of:
            last = next((step for step in rank.steps if step.again), rank.steps[-1])
            raise ValueError(
                f"{rank.name} has no whole step: {last.lack or 'it only evaluates'}. Profile some more steps"
            )
    all_of_them = join_words((rank.name for rank in ranks), most=3)
    found, lacks = _put_together(_by_time(candidates), trained, name, unit)
    apart = any(one.apart for one in found)
    if apart or len(found) < min(map(len, candidates)):
        counts = sorted(len(of) for of in candidates)
        if counts[0] == counts[-1]:
            by_number = _put_together(list(zip(*candidates, strict=True)), trained, name, unit)
            found, lacks = by_number if apart or len(by_number[0]) > len(found) else (found, lacks)
        elif apart or not found:
            raise ValueError(
                f"{all_of_them} have {counts[0]} to {counts[-1]} whole steps, and by their clocks none that ran at one "
                "time, so nothing tells which belong together: profile the same steps on all ranks"
            )
    wrong = [f"on {rank.name} {step.lack}" for rank in ranks for step in rank.steps if step.lack] + lacks
    if not found:
        raise ValueError(f"{all_of_them} have no whole step in common: {wrong[-1]}")
    others = max(len(rank.steps) for rank in ranks) - len(found)
    why = wrong[0] if wrong else "it only evaluates"
    are = "is" if others == 1 else "are"
    return found, f"left out {plural(others, 'step')} that {are} not whole: {why}" if others else ""


def _by_time(candidates: Sequence[Sequence[Step]]) -> list[tuple[Step, ...]]:
    """The steps of all ranks that ran at the same time, in the order of those of the rank that has fewest."""
    fewest = min(candidates, key=len)
    places = [0] * len(candidates)
    rows = []
    for step in fewest:
        row = []
        for device, of in enumerate(candidates):
            while places[device] + 1 < len(of) and step.overlap(of[places[device] + 1]) > step.overlap(
                of[places[device]]
            ):
                places[device] += 1
            row.append(of[places[device]])
        if all(step.overlap(other) > 0 for other in row):
            rows.append(tuple(row))
    return rows


def _put_together(
    rows: Sequence[Sequence[Step]], trained: bool, name: str, unit: float
) -> tuple[list[Together], list[str]]:
    """Those rows that are whole steps, and what the others lack."""
    found, lacks = [], []
    for row in rows:
        if problem := _incomplete(row, trained):
            lacks.append(problem)
        else:
            found.append(_timeline(row, name, unit))
    return found, lacks


def _incomplete(row: Sequence[Step], trained: bool) -> str:
    """What is wrong with a step as the ranks have it; "" if nothing is."""
    rows = [[placed.op for placed in step.ops] for step in row]
    if trained:
        problems = Schedule(rows).problems()
        return problems[0].message if problems else ""
    per_stage: dict[int, set[int]] = {}
    for op in (op for ops in rows for op in ops):
        per_stage.setdefault(op.stage, set()).add(op.micro_batch)
    every = set().union(*per_stage.values())
    return next(
        (f"stage {stage} lacks micro-batch {min(every - has)}" for stage, has in per_stage.items() if every - has), ""
    )


def _timeline(row: Sequence[Step], name: str, unit: float) -> Together:
    shifts, doubts, apart = _clocks(row, unit)
    first = min(step.start + shift for step, shift in zip(row, shifts, strict=True))
    spans = [
        Span(device, placed.op, (placed.start + shift - first) * unit, (placed.end + shift - first) * unit)
        for device, (step, shift) in enumerate(zip(row, shifts, strict=True))
        for placed in step.ops
    ]
    sent = [
        message._replace(
            start=(message.start - first) * unit, end=(message.end - first) * unit, there=(message.there - first) * unit
        )
        for message in _messages(row, shifts)
    ]
    pause = None if apart else _pause(row, unit)
    exchanges = {
        op: one._replace(time=one.time * unit, exposed=one.exposed * unit, uneven=one.uneven * unit)
        for step in row
        for op, one in step.exchanges.items()
    }
    about: dict[str, Any] = {"messages": sent, "pause": pause, "exchanges": exchanges}
    timeline = Timeline(spans, len(row), name=name, source="measured", unit="s", **about)
    return Together(timeline, (*doubts, *_overlapping(timeline)), apart)


def _pause(row: Sequence[Step], unit: float) -> Pause | None:
    """What came between a step and the one before, if that was whole on all ranks, and of the same kind."""
    earlier = [was for step in row if (was := step.before) and not was.lack and was.forward_only == step.forward_only]
    if len(earlier) < len(row) or min(step.end for step in earlier) <= max(step.start for step in earlier):
        return None
    over = max(step.end for step in earlier)
    # A host may run ahead of its GPU, which is ready when its own last op is over.
    own = [max(0.0, step.ready - was.end) * unit for step, was in zip(row, earlier, strict=True)]
    ready = [(was.end - over) * unit + one for was, one in zip(earlier, own, strict=True)]
    return Pause(max(0.0, min(step.start for step in row) - over) * unit, tuple(own), tuple(ready))


def _clocks(row: Sequence[Step], unit: float) -> tuple[list[float], list[str], bool]:
    """What to add to each rank's times, what to say of it, and whether clocks contradict the order by much.

    An op that starts before what it waits for has ended shows that the clocks of two ranks disagree. Each rank's clock
    is moved by the least that avoids this for all ops; if there is no such move, times stay as they are.
    """
    ended = {placed.op: (device, placed.end) for device, step in enumerate(row) for placed in step.ops}
    needs = Schedule([[placed.op for placed in step.ops] for step in row]).needs
    early: dict[tuple[int, int], tuple[float, str]] = {}
    for device, step in enumerate(row):
        for placed in step.ops:
            for need in needs(placed.op):
                source, end = ended[need]
                if source != device:
                    by = (end - placed.start, f"{placed.op} began before {need} had ended")
                    early[source, device] = max(by, early.get((source, device), by))
    length = max(step.end for step in row) - min(step.start for step in row)
    work = sum(placed.end - placed.start for step in row for placed in step.ops) / len(row)
    worst, example = max(early.values(), default=(0.0, ""))
    still = [0.0] * len(row)
    scale = min(length, work or length)
    if worst < 0.001 * scale:
        return still, [], False
    if worst < 0.01 * scale:
        return still, [f"times contradict the order by {worst * unit * 1e3:.3g} ms: by them {example}"], False
    shifts = list(still)
    for _ in range(len(row) + 1):
        moved = [
            max([shift, *(shifts[source] + by for (source, goal), (by, _) in early.items() if goal == device)])
            for device, shift in enumerate(shifts)
        ]
        if moved == shifts:
            least = median(shifts)
            shifts = [shift - least for shift in shifts]
            said = join_words(f"{shift * unit * 1e3:+.3g}" for shift in shifts)
            doubt = (
                f"clocks contradict the order: by them {example}. The ranks' times were moved by {said} ms, the least "
                "with which no op begins before what it waits for; gaps between ranks are only as right as that"
            )
            return shifts, [doubt], True
        shifts = moved
    doubt = (
        f"times contradict the order: by them {example}, and no shift of clocks explains it. Gaps between ranks say "
        "nothing"
    )
    return still, [doubt], True


def _overlapping(timeline: Timeline) -> list[str]:
    """What to say where one rank ran two ops at once, as kernels of two streams do."""
    twice = 0.0
    for device in range(timeline.devices):
        free = timeline.start
        for span in timeline.row(device):
            twice += max(0.0, min(free, span.end) - span.start)
            free = max(free, span.end)
    if twice < 0.005 * timeline.devices * timeline.makespan:
        return []
    share = twice / timeline.devices / timeline.makespan
    return [f"ops of a rank overlap: for {share:.1%} of the step in the mean, by which the bubble is larger than shown"]


def _messages(row: Sequence[Step], shifts: Sequence[float]) -> list[Message]:
    """The messages whose sender and receiver both show: under way once both have begun."""
    ops = {placed.op: device for device, step in enumerate(row) for placed in step.ops}
    sent: dict[Transfer, tuple[int, float, float]] = {}
    got: dict[Transfer, tuple[int, float, float]] = {}
    for device, (step, shift) in enumerate(zip(row, shifts, strict=True)):
        for one in step.transfers:
            (sent if one.transfer.sends else got)[one.transfer] = (device, one.start + shift, one.end + shift)
    found = []
    for transfer, (source, start, end) in sent.items():
        kinds = "F" if transfer.kind == "F" else "BIC"
        op = next((op for kind in kinds if (op := Op(kind, transfer.micro_batch, transfer.stage)) in ops), None)
        if op is None or transfer.other not in got:
            continue
        target, begun, there = got[transfer.other]
        start = max(start, begun)
        end = max(start, end)
        found.append(Message(op, source, target, start, end, max(end, there)))
    return found


def said_of(ranks: Sequence[Rank]) -> str:
    """What files of torch.profiler were taken for."""
    known = [rank.rank for rank in ranks if rank.rank is not None]
    of = f"of ranks {join_words(known)}" if len(known) == len(ranks) else f"of {plural(len(ranks), 'rank')}"
    return f"traces of torch.profiler, {of}"
