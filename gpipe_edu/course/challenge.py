"""Your turn: a learner types a schedule, a cut, a number or a function, and sees the result, which is remembered.

`challenges.toml` states each task: how large it is, and what an answer must reach. The sentence shown before an
attempt, and after one that fails, is made from it. Results are judged, never texts, so any way to reach them is right.
A challenge in an appendix says optional = true: a lesson can be complete without it. `problems.toml` has the problems
at each lesson's end, all of which ask for a number and are optional.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from inspect import signature
from itertools import accumulate, pairwise
from numbers import Real
from typing import Any, Final, NamedTuple

from gpipe_edu.base import store
from gpipe_edu.base.words import plural
from gpipe_edu.schedule import Schedule, ScheduleError, gpipe, one_f_one_b
from gpipe_edu.schedule.recompute import add_recompute
from gpipe_edu.split import balance_uniform
from gpipe_edu.timeline import Costs, Timeline, peak_memory, simulate

from .notebook import frontend, output
from .typed_functions import slip_of_peaks, slip_of_worker

_SECTION: Final = "challenges"
_NEAR: Final = 0.01
"""How far off a number with decimals may be, relatively, since it may be rounded."""


class Kind(NamedTuple):
    """Challenges that are judged alike: the sentence that says what is wanted and in what form, and the judge."""

    wanted: Callable[[Mapping[str, Any]], str]
    judge: Callable[[Mapping[str, Any], object], Judged]


class Judged(NamedTuple):
    """The result of an attempt: whether it is solved, a sentence, and a chart if there is one."""

    solved: bool
    words: str
    chart: Timeline | None = None


def attempt(key: str, answer: object = None) -> None:
    """Judge `answer` to the challenge `key`, such as "03/lean", and show the result; without one, what is wanted.

    answer: a schedule as text or as a Schedule, a cut as a tuple of layer counts, a list of micro-batches, a dict of
    both, a number, or one or two functions, as the lesson asks; "?" shows how a number or a function is worked out.
    Raises ValueError for a key that does not exist, TypeError for an answer of another kind.
    """
    kind, wish = _find(key)
    if isinstance(answer, str) and answer.strip() == "?" and "because" in wish:
        output.show(f"**Worked out:** {wish['because']}")
        return
    wanted = f"**Wanted:** {kind.wanted(wish)}"
    if answer is None:
        output.show(wanted)
        return
    judged = kind.judge(wish, answer)
    if judged.solved:
        output.show(" ".join(filter(None, ["**Solved.**", judged.words, _keep(key)])))
    else:
        output.show(f"**Not yet.** {judged.words}\n\n{wanted}")
    if judged.chart is None:
        return
    notebook = frontend.current()
    if notebook:
        notebook.display(judged.chart)
    else:
        from gpipe_edu.view.text import render_text

        print(render_text(judged.chart))


def solves(key: str, answer: object) -> bool:
    """Whether `answer` solves the challenge `key`; shows nothing. What a lesson goes on with may depend on it.

    Raises what `attempt` raises.
    """
    kind, wish = _find(key)
    return kind.judge(wish, answer).solved


def challenges(lesson: str = "") -> list[str]:
    """The keys of a lesson's challenges, or of all."""
    return [key for key in _wishes() if key.startswith(lesson)]


def solved() -> list[str]:
    """The keys of the challenges that are solved."""
    try:
        kept = store.read(_SECTION)
    except OSError:
        return []
    return [key for key in _wishes() if kept.get(key) == "solved"]


def optional(key: str) -> bool:
    """Whether a lesson can be complete without this challenge, because it is in an optional part."""
    return bool(_wishes()[key].get("optional", False))


def _describe_schedule(wish: Mapping[str, Any]) -> str:
    K, M = wish["K"], wish["M"]
    words = f"a schedule that can run, as text: {K} lines, one for each device, with the ops of all {M} micro-batches"
    if "stages" in wish:
        words += f" in all {wish['stages']} stages, such as F0@{wish['stages'] - 1}"
    if "home" in wish:
        words += f", where stages 0 to {wish['stages'] - 1} are on devices {_list(wish['home'])}"
    if "split" in wish:
        words += ", each backward as an I and a W"
    if "makespan" in wish:
        words += f"; its step takes at most {wish['makespan']:g} units"
    if "in_flight" in wish:
        words += f"; the devices, from 0 on, hold at most {_list(wish['in_flight'])} micro-batches"
    return f"{words}."


def _judge_schedule(wish: Mapping[str, Any], answer: object) -> Judged:
    if not isinstance(answer, (str, Schedule)):
        raise TypeError(f"answer is {answer!r}; it must be a schedule as text, a line per device, or a Schedule")
    try:
        schedule = Schedule.parse(answer, name="yours") if isinstance(answer, str) else answer
        schedule.check()
    except ScheduleError as error:
        return Judged(False, f"It cannot run: {error}")
    plan = simulate(schedule, Costs(**wish.get("costs", {})))
    size = (wish["K"], wish.get("stages", wish["K"]), wish["M"])
    if (schedule.devices, schedule.stages, schedule.micro_batches) != size:
        came = [plural(schedule.devices, "device"), plural(schedule.micro_batches, "micro-batch")]
        if schedule.stages != schedule.devices or "stages" in wish:
            came.insert(1, plural(schedule.stages, "stage"))
        each = f"{wish['stages']} stages" if "stages" in wish else "a stage each"
        wanted = f"{wish['K']} devices with {each} and {wish['M']} micro-batches"
        return Judged(False, f"It runs, but it has {', '.join(came)}, and needs {wanted}.", plan)
    missed = []
    home = [schedule.device_of_stage[k] for k in range(schedule.stages)]
    if home != wish.get("home", home):
        missed.append(f"its stages are on devices {_list(home)} and belong on {_list(wish['home'])}")
    if "split" in wish and any(op.kind not in "FIW" for row in schedule.rows for op in row):
        missed.append("it has backwards that are not split into an I and a W")
    if plan.makespan > wish.get("makespan", plan.makespan):
        missed.append(f"it takes {plan.makespan:g} units and may take {wish['makespan']:g}")
    room = wish.get("in_flight", plan.peak_in_flight)
    if any(peak > most for peak, most in zip(plan.peak_in_flight, room, strict=True)):
        missed.append(f"the devices hold {_list(plan.peak_in_flight)} micro-batches and may hold {_list(room)}")
    if missed:
        return Judged(False, f"It runs, but {' and '.join(missed)}.", plan)
    return Judged(True, f"It takes {plan.makespan:g} units, the devices hold {_list(plan.peak_in_flight)}.", plan)


def _describe_cut(wish: Mapping[str, Any]) -> str:
    layers, K = len(wish["costs"]), wish["K"]
    example = ", ".join(map(str, balance_uniform(layers, K)))
    return (
        f"how many layers each stage gets, {K} numbers such as ({example}) whose sum is {layers}, so that no stage "
        f"costs more than {wish['largest']}{_sent_at_most(wish)}. The layers cost {_list(wish['costs'])}."
    )


def _sent_at_most(wish: Mapping[str, Any]) -> str:
    if "sends" not in wish:
        return ""
    put_out = _list(wish["widths"])
    return f" and the cuts send at most {wish['sends']} numbers per sample, where the layers put out {put_out}"


def _judge_cut(wish: Mapping[str, Any], answer: object) -> Judged:
    whole = isinstance(answer, (tuple, list)) and all(type(count) is int for count in answer)
    if not whole:
        raise TypeError(f"answer is {answer!r}; it must be the layers of each stage, such as (3, 3, 3)")
    counts: list[int] = list(answer)  # type: ignore[call-overload]
    costs = wish["costs"]
    if slip := _slip_of_counts(counts, wish["K"], len(costs)):
        return Judged(False, slip)
    stages = [sum(costs[start:end]) for start, end in pairwise([0, *accumulate(counts)])]
    words = f"The stages cost {_list(stages)}"
    if max(stages) > wish["largest"]:
        return Judged(False, f"{words}: stage {stages.index(max(stages))} is over {wish['largest']}.")
    if "sends" in wish:
        sent = sum(wish["widths"][end - 1] for end in list(accumulate(counts))[:-1])
        words += f", and the cuts send {sent} numbers per sample"
        if sent > wish["sends"]:
            return Judged(False, f"{words}: {wish['sends']} are allowed.")
    return Judged(True, f"{words}; no stage is over {wish['largest']}.")


def _slip_of_counts(counts: Sequence[int], K: int, layers: int) -> str:
    """Why so many layers for each stage are no cut; "" if they are one."""
    if len(counts) != K:
        return f"There are {K} stages, and you gave {plural(len(counts), 'number')}."
    if min(counts) < 1:
        return f"Stage {counts.index(min(counts))} gets no layer; each needs one."
    return "" if sum(counts) == layers else f"There are {layers} layers, and yours are {sum(counts)}."


def _describe_pieces(wish: Mapping[str, Any]) -> str:
    return (
        f"two lists: the sizes of {wish['M']} micro-batches into which {wish['N']} samples are cut as evenly as "
        f"possible, and the weight of each in the mean loss."
    )


def _judge_pieces(wish: Mapping[str, Any], answer: object) -> Judged:
    N, M = wish["N"], wish["M"]
    lists: list[Any] = list(answer) if isinstance(answer, (tuple, list)) else []
    if len(lists) != 2 or not all(isinstance(one, (tuple, list)) and all(map(_is_number, one)) for one in lists):
        raise TypeError(f"answer is {answer!r}; it must be two lists of numbers, the sizes and the weights")
    sizes: list[float] = list(lists[0])
    weights: list[float] = list(lists[1])
    if len(sizes) != M or len(weights) != M:
        came = " and ".join(plural(len(one), name) for one, name in ((sizes, "size"), (weights, "weight")))
        return Judged(False, f"There are {M} micro-batches, and you gave {came}.")
    if sum(sizes) != N:
        return Judged(False, f"There are {N} samples, and yours are {sum(sizes):g}.")
    if max(sizes) - min(sizes) > 1:
        return Judged(False, f"Sizes {_list(sizes)} differ by more than one sample.")
    if not all(math.isclose(weight, size / N, rel_tol=1e-6) for size, weight in zip(sizes, weights, strict=True)):
        alike = len(set(weights)) == 1
        why = "a sample in a smaller micro-batch would then count for more" if alike else "each sample counts for 1 / N"
        return Judged(False, f"The sizes are right, the weights are not: {why}.")
    return Judged(True, f"{_list(sizes)}, and every sample counts for 1/{N}.")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _describe_batch(wish: Mapping[str, Any]) -> str:
    return f"the largest mini-batch that fits into {wish['room'] / 1e6:g} MB, as a whole number of samples."


def _judge_batch(wish: Mapping[str, Any], answer: object) -> Judged:
    if type(answer) is not int:
        raise TypeError(f"answer is {answer!r}; it must be a whole number of samples")
    if answer < 1:
        return Judged(False, "A mini-batch has at least one sample.")
    needed = wish["fixed"] + answer * wish["sample"]
    words = f"N = {answer} needs {needed / 1e6:.2f} MB of {wish['room'] / 1e6:g} MB"
    if needed > wish["room"]:
        return Judged(False, f"{words}: it does not fit.")
    if needed + wish["sample"] <= wish["room"]:
        return Judged(False, f"{words}: it fits, but a larger one fits, too.")
    return Judged(True, f"{words}, and one sample more would not fit.")


_KNOBS: Final = "D, K, M, tensor, zero, recompute and schedule"


def _describe_plan(wish: Mapping[str, Any]) -> str:
    own = isinstance(wish["machine"], Mapping)
    there = f"devices of {wish['machine']['memory'] / 1e9:g} GB" if own else wish["machine"]
    model = "the Transformer of the lesson" if own else wish["model"]
    return (
        f"a way to train {model} on {wish['devices']} {there} with {wish['batch']} sequences a step, "
        f"as a dict with some of {_KNOBS}, that fits and whose step takes at most {wish['step']:g} seconds."
    )


def _judge_plan(wish: Mapping[str, Any], answer: object) -> Judged:
    from gpipe_edu.sizing import Job, Machine, Plan, presets, transformer

    if not isinstance(answer, Mapping):
        raise TypeError(f"answer is {answer!r}; it must be a dict, such as {{'D': 2, 'K': 4, 'M': 8}}")
    strange = [name for name in answer if name not in signature(Plan).parameters]
    if strange:
        return Judged(False, f"There is no {strange[0]}: the names are {_KNOBS}.")
    if isinstance(wish["machine"], Mapping):
        job = Job(transformer(**wish["model"]), wish["batch"], Machine(wish["devices"], **wish["machine"]))
    else:
        job = presets.job(presets.model(wish["model"]), wish["batch"], wish["machine"], wish["devices"])
    try:
        plan = Plan(job, **{"D": 1, "K": 1, "M": 1, **answer})
    except (TypeError, ValueError) as error:
        return Judged(False, f"It cannot be: {error}.")
    if not plan.fits:
        return Judged(False, f"Device {plan.fullest} lacks {plan.short / 1e9:,.3g} GB ({plan.knobs}).")
    words = f"It fits, and a step takes {plan.step:.3g} seconds (planned), {100 * plan.bubble:.0f} % of it bubble"
    return Judged(plan.step <= wish["step"], f"{words}.")


def _describe_number(wish: Mapping[str, Any]) -> str:
    return f"{wish['question']} A number, in {wish['unit']}."


def _judge_number(wish: Mapping[str, Any], answer: object) -> Judged:
    if isinstance(answer, bool) or not isinstance(answer, Real) or not math.isfinite(answer):
        raise TypeError(f"answer is {answer!r}; it must be a number, in {wish['unit']}")
    if _meant(answer, wish["answer"]):
        return Judged(True, wish["because"])
    known = (slip["because"] for slip in wish["wrong"] if _meant(answer, slip["answer"]))
    side = f"{answer:g} is too {'small' if answer < wish['answer'] else 'large'}."
    return Judged(False, f'{next(known, side)} (`"?"` in its place shows how it is worked out.)')


def _meant(given: Real, number: float) -> bool:
    """Whether a number with decimals is near `number`; a whole one has to be it."""
    return bool(given == number) if isinstance(number, int) else math.isclose(given, number, rel_tol=_NEAR)


def _describe_recompute(wish: Mapping[str, Any]) -> str:
    return (
        f"the micro-batches that recompute, on all devices alike, as a list such as [0, 1] with numbers from 0 to "
        f"{wish['M'] - 1}, so that no device holds more than {wish['room']} blocks and the step takes at most "
        f"{wish['makespan']:g} units."
    )


def _judge_recompute(wish: Mapping[str, Any], answer: object) -> Judged:
    if not isinstance(answer, (list, tuple, set, range)) or any(type(m) is not int for m in answer):
        raise TypeError(f"answer is {answer!r}; it must be a list of micro-batches, such as [0, 1]")
    strange = [m for m in answer if not 0 <= m < wish["M"]]
    if strange:
        return Judged(False, f"There is no micro-batch {strange[0]}; they are 0 to {wish['M'] - 1}.")
    plan = simulate(add_recompute(gpipe(wish["K"], wish["M"]), answer, "yours"))
    peak = max(peak_memory(plan, boundary=1, interior=wish["interior"]))
    words = f"A device holds up to {peak:g} blocks, and the step takes {plan.makespan:g} units"
    if peak > wish["room"]:
        return Judged(False, f"{words}: there is room for {wish['room']} blocks only.", plan)
    if plan.makespan > wish["makespan"]:
        return Judged(False, f"{words}: it fits, and can be faster.", plan)
    return Judged(True, f"{words}.", plan)


def _describe_packs(wish: Mapping[str, Any]) -> str:
    M = len(wish["packs"])
    order = f"[{_list(range(M))}]"
    if "layers" in wish:
        even = tuple(balance_uniform(len(wish["layers"]), wish["K"]))
        words = "the order of the packs and the layers of each stage, as a dict such as "
        words += f'{{"order": {order}, "cut": {even}}}'
    else:
        words = f"the numbers of the packs in the order in which they run under 1F1B, a list such as {order}"
    room = f", so that no device holds more than {wish['memory']}, and" if "memory" in wish else ", so that"
    return f"{words}{room} the planned step takes at most {wish['makespan']:g}."


def _judge_packs(wish: Mapping[str, Any], answer: object) -> Judged:
    packs, K, cut = wish["packs"], wish["K"], [1] * wish["K"]
    order: Any = answer
    if "layers" in wish:
        if not isinstance(answer, Mapping) or set(answer) != {"order", "cut"}:
            raise TypeError(f'answer is {answer!r}; it must be a dict with "order" and "cut"')
        order, cut = answer["order"], answer["cut"]
    for name, one in (("the order", order), ("the cut", cut)):
        if not isinstance(one, (list, tuple, range)) or any(type(number) is not int for number in one):
            raise TypeError(f"{name} is {one!r}; it must be a list of whole numbers, such as [2, 0, 1]")
    layers = wish.get("layers", ["pack"] * K)
    slip = _slip_of_order(order, len(packs)) or _slip_of_counts(cut, K, len(layers))
    if slip:
        return Judged(False, slip)
    of_layer = [[packs[m] if kind == "pack" else 1 for m in order] for kind in layers]
    ends = pairwise([0, *accumulate(cut)])
    forwards = [[sum(column) for column in zip(*of_layer[start:end], strict=True)] for start, end in ends]
    plan = simulate(one_f_one_b(K, len(order)), Costs(micro_batches=forwards))
    # Under 1F1B up to K - k packs in a row are in flight on stage k.
    held = max(sum(row[at : at + K - k]) for k, row in enumerate(forwards) for at in range(len(row)))
    words = f"The step takes {plan.makespan:g} (planned)"
    words += f", and the fullest device holds {held:g}" if "memory" in wish else ""
    if held > wish.get("memory", held):
        return Judged(False, f"{words}: there is room for {wish['memory']}.", plan)
    if plan.makespan > wish["makespan"]:
        return Judged(False, f"{words}: a shorter step is possible.", plan)
    return Judged(True, f"{words}.", plan)


def _slip_of_order(order: Sequence[int], M: int) -> str:
    """Why it is no order of M packs; "" if it is one."""
    for m in order:
        if not 0 <= m < M:
            return f"There is no pack {m}; they are 0 to {M - 1}."
        if order.count(m) > 1:
            return f"Pack {m} comes {plural(order.count(m), 'time')}; each runs once."
    missing = [m for m in range(M) if m not in order]
    return f"Missing from the order: {_list(missing)}." if missing else ""


def _describe_worker(wish: Mapping[str, Any]) -> str:
    return (
        "`stage_worker`, with which a stage takes all its micro-batches forward, then all of them back, the last one "
        "first. Hand over the function itself, without a call."
    )


def _judge_worker(wish: Mapping[str, Any], answer: object) -> Judged:
    slip = slip_of_worker(answer)
    return Judged(not slip, slip or "Its gradients are the same as on one device. The lesson goes on with yours.")


def _describe_peaks(wish: Mapping[str, Any]) -> str:
    return (
        "two functions of N, L, K and M, as `[all_kept, rematerialized]`, each of which returns how many samples' "
        "outputs of one layer a device holds at its peak. M divides N, and K divides L."
    )


def _judge_peaks(wish: Mapping[str, Any], answer: object) -> Judged:
    slip = slip_of_peaks(answer)
    return Judged(not slip, slip or "Both agree with a simulated step, for several N, L, K and M.")


_KINDS: Final = {
    "schedule": Kind(_describe_schedule, _judge_schedule),
    "cut": Kind(_describe_cut, _judge_cut),
    "batch": Kind(_describe_batch, _judge_batch),
    "pieces": Kind(_describe_pieces, _judge_pieces),
    "number": Kind(_describe_number, _judge_number),
    "plan": Kind(_describe_plan, _judge_plan),
    "recompute": Kind(_describe_recompute, _judge_recompute),
    "packs": Kind(_describe_packs, _judge_packs),
    "worker": Kind(_describe_worker, _judge_worker),
    "peaks": Kind(_describe_peaks, _judge_peaks),
}


@cache
def _wishes() -> dict[str, dict[str, Any]]:
    problems = {key: {"kind": "number", "optional": True, **wish} for key, wish in _entries("problems.toml").items()}
    return _entries("challenges.toml") | problems


def _entries(file: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("gpipe_edu.course").joinpath(file).read_text(encoding="utf-8"))


def _find(key: str) -> tuple[Kind, dict[str, Any]]:
    if key not in _wishes():
        raise ValueError(f"there is no challenge {key!r}; there are {', '.join(_wishes())}")
    wish = _wishes()[key]
    return _KINDS[wish["kind"]], wish


def _keep(key: str) -> str:
    try:
        with store.change(_SECTION) as kept:
            kept[key] = "solved"
    except OSError as error:
        return f"(This could not be kept: {error}. Set {store.HOME} to a folder you may write to.)"
    return ""


def _list(values: Any) -> str:
    return ", ".join(f"{value:g}" for value in values)
