"""What the guide weighs and says, its cures against guides for the cured jobs, and what people do."""

import re
from html import unescape

import pytest

from gpipe_edu.sizing import STATES, Job, Machine, Plan, Planner, SearchSpace, guide, mlp, presets, transformer
from gpipe_edu.sizing.flags import SYSTEMS, lacking, where
from gpipe_edu.sizing.page.picture import as_html
from gpipe_edu.sizing.plan import RECOMPUTES, SCHEDULES, ZERO
from gpipe_edu.sizing.planner import ANY, LONG, ROOMY, SMALL, TIE, USUAL, bar, duration, size
from gpipe_edu.sizing.systems import full_name
from tests.each import each

MODEL = transformer(blocks=10, width=256, context=128, vocabulary=2000)
MACHINE = Machine(devices=6, memory=200e6, speed=1e12, overhead=20e-6, link=10e9)
JOB = Job(MODEL, 48, MACHINE)
PLAIN = SearchSpace(zero=(0,), tensor=(1,), schedules=("1f1b",))


@pytest.fixture(scope="module")
def found():
    return guide(JOB, PLAIN)


def test_every_number_of_few_devices_is_tried_and_of_many_every_divisor(found):
    assert {(plan.D, plan.K) for plan in found.plans} == {
        (D, K) for D in range(1, 7) for K in range(1, 7) if D * K <= 6
    }
    assert {plan.K for plan in Planner(Job(transformer(1, 8, 8, 8), 4, MACHINE)).plans} == {1, 2, 3}  # 3 layers
    many = Planner(Job(MODEL, 40, MACHINE._replace(devices=20)), PLAIN)
    assert {(plan.D, plan.K) for plan in many.plans} == {(20, 1), (10, 2), (5, 4), (4, 5), (2, 10)}
    few = Planner(Job(MODEL, 3, MACHINE._replace(devices=20)), PLAIN)
    assert {(plan.D, plan.K) for plan in few.plans} == {(2, 1), (2, 2), (1, 4), (2, 5), (2, 10)}
    # Every size of micro-batch once: 12 samples by 5, 6, 7 ... pieces are 3, 2, 2 ..., but of 48 not every one.
    for D, sizes in ((4, [12, 6, 4, 3, 2, 1]), (1, [48, 24, 16, 12, 8, 6, 4, 3, 2, 1])):
        assert [plan.samples for plan in found.plans if (plan.D, plan.K, plan.recompute) == (D, 1, "none")] == sizes


def test_scores_that_are_not_stored_are_not_recomputed(found):
    assert {plan.recompute for plan in found.plans} == {"none", "full", "stage"}
    stored = transformer(2, 64, 32, 100, fused=False)
    assert {plan.recompute for plan in Planner(JOB._replace(model=stored), PLAIN).plans} == set(RECOMPUTES)


def test_of_equally_fast_plans_the_one_with_fewer_devices_is_best():
    # One layer does all the work, so no cut helps, and the mini-batch is one sample, so replicas don't either.
    lopsided = MODEL._replace(
        layers=(*(layer._replace(work=0, weightless=0) for layer in MODEL.layers[:-1]), MODEL.layers[-1])
    )
    best = Planner(
        Job(lopsided, 1, MACHINE._replace(memory=1e12, overhead=0, link=None)), SearchSpace(tensor=(1,))
    ).best
    assert (best.D, best.K, best.zero, best.recompute) == (1, 1, 0, "none")


def test_rows_show_the_best_of_each_K_and_the_best_of_all(found):
    rows = found.rows()
    assert [row.K for row in rows] == [1, 2, 3, 4, 5, 6]
    assert found.best in rows
    for row in rows:
        same = [plan for plan in found.plans if plan.K == row.K]
        fitting = [plan for plan in same if plan.fits]
        if fitting:
            assert row.fits
            assert row.step <= (1 + TIE) * min(plan.step for plan in fitting)
        else:
            assert row.short == min(plan.short for plan in same)


def test_changes_turn_one_knob_and_say_what_it_does(found):
    best = found.best
    seen = set()
    for plan, effect in found.changes():
        knobs = "".join(name for name in ("D", "K", "M", "recompute") if getattr(plan, name) != getattr(best, name))
        assert knobs in ("D", "K", "M", "recompute", "DK")  # replicas for stages, or the other way round
        seen.add(knobs)
        assert ("short on device" in effect) == (not plan.fits)
        if abs(plan.step / best.step - 1) > 0.01:
            assert f"{plan.step / best.step - 1:+.0%} time" in effect
    assert {"M", "recompute"} <= seen


def test_the_reason_says_when_to_use_a_pipeline_and_when_not():
    roomy = Planner(JOB._replace(machine=MACHINE._replace(memory=10e9)), PLAIN)
    assert (roomy.best.D, roomy.best.K) == (6, 1)
    fastest = min(plan.step for plan in roomy.fitting if plan.K > 1)
    words = r"none needs a pipeline here: of those with one, the fastest, D=3, K=2, .*?, takes ([\d.]+) times as long"
    times = float(re.search(words, roomy.reason())[1])
    assert fastest / roomy.best.step <= times + 0.005 <= (1 + 2 * TIE) * fastest / roomy.best.step
    assert f"Of {len(roomy.plans):,} plans, none that fits" in roomy.reason()

    tight = Planner(JOB._replace(machine=MACHINE._replace(memory=120e6)), PLAIN)
    assert tight.best.K > 1
    least = min(plan.short for plan in tight.plans if plan.K == 1)
    assert f"Of the ways weighed, only a pipeline fits: without one, a device lacks {size(least)}" in tight.reason()

    slow = Planner(JOB._replace(machine=MACHINE._replace(memory=10e9, link=2e8)), PLAIN)
    assert slow.best.K > 1
    times = slow.alone.step / slow.best.step
    said = f"a pipeline is fastest: the best without a pipeline, {slow.alone.knobs}, takes {times:.2f} times"
    said = f"Of the ways weighed, {said} as long: replica exchanges that computation does not hide cost"
    assert said in slow.reason()

    one = Planner(JOB._replace(machine=MACHINE._replace(devices=1, memory=10e9)), PLAIN)
    assert "On one device there is nothing to divide." in one.reason()
    with pytest.raises(ValueError, match="something fits"):
        one.shortage()


def test_the_second_best_divides_in_another_way_and_says_why_it_loses():
    guide = Planner(JOB._replace(machine=MACHINE._replace(memory=10e9)))
    best, second = guide.best, guide.second

    def way(plan):
        return plan.K, plan.group.tensor, plan.zero

    assert way(second) != way(best)
    others = [plan.step for plan in guide.fitting if way(plan) != way(best)]
    assert second.step <= (1 + TIE) * min(others)
    assert f"The best of the other ways, {second.knobs}, " in guide.reason()


def test_it_says_of_which_ways_it_speaks_and_weighs_just_these():
    """Whatever the verdict: it may be about no other ways."""
    job = Job(transformer(6, 64, 4 * LONG, 500, heads=4, fused=False), 8, MACHINE._replace(node=4))
    guide = Planner(job)
    assert {plan.zero for plan in guide.plans} == set(ZERO)
    assert {plan.recompute for plan in guide.plans} == set(RECOMPUTES)
    assert {plan.schedule for plan in guide.plans if plan.K > 1} == set(USUAL)
    assert {plan.group.tensor for plan in guide.plans} == {1, 2, 4}  # of six devices, in nodes of four
    assert {plan.group.context for plan in guide.plans} == {1, 2, 4}  # each has as many tokens as is said
    only = SearchSpace(zero=(1,), schedules=("gpipe", "zero_bubble"), context=(2,), tensor=(2,), sequence=(False,))
    less = Planner(job, only)
    assert {plan.zero for plan in less.plans if plan.ranks > 1} == {1}
    assert {tuple(plan.group) for plan in less.plans} == {(2, False, 2)}
    for any_guide, ways in ((less, only), (Planner(job._replace(machine=MACHINE._replace(memory=20e3)), only), only)):
        assert " ".join(str(any_guide).split()).endswith(str(ways))
    assert "ZeRO 1; tensor groups of 2 without sequence parallelism;" in str(only)
    assert f"{LONG:,} tokens or more per device cut 2 ways; gpipe or zero_bubble; recompute" in str(only)
    assert "; 1f1b or interleaved (V=2, 4 or 8); recompute" in str(SearchSpace(schedules=("1f1b", "interleaved")))
    assert "; no tensor groups; sequences whole; gpipe" in str(SearchSpace(tensor=(1,), context=(1,)))


@each(
    "ways, says",
    [
        (SearchSpace(zero=(4,)), "zero has 4; it may have 0, 1, 2, 3"),
        (SearchSpace(schedules=("naive",)), "schedules has 'naive'; it may have gpipe, 1f1b"),
        (SearchSpace(recompute=()), "recompute is empty"),
        (SearchSpace(tensor=(8,)), "no plan is left to weigh: .*8"),
    ],
)
def test_ways_that_are_not_known_are_refused(ways, says):
    with pytest.raises(ValueError, match=says):
        Planner(JOB, ways)


def test_without_sequence_parallelism_no_plan_is_faster_or_smaller():
    """So it is weighed only where somebody asks."""
    job = Job(transformer(4, 256, 128, 500, heads=4), 8, Machine(8, 1e9, 1e12, link=1e10, bandwidth=1e11))
    for recompute in RECOMPUTES:
        with_it, without = (Plan(job, 1, 2, 4, recompute, tensor=4, sequence=each) for each in (True, False))
        assert with_it.step < without.step
        assert max(with_it.memory) < max(without.memory)


WHAT_PEOPLE_DO = {
    ("llama3-8b", 128, "h100", 64): lambda best: (best.K, best.group.tensor, best.zero) == (1, 1, 3),  # FSDP
    ("olmo2-1b", 256, "rtx4090", 8): lambda best: (best.K, best.group.tensor, best.recompute) == (1, 1, "none"),
    # Megatron-LM's three dimensions, or FSDP that recomputes.
    ("llama3-70b", 512, "h100", 64): lambda best: best.K in (2, 4) and best.group.tensor in (4, 8),
}


@each("job", WHAT_PEOPLE_DO)
def test_the_best_is_what_people_do_who_train_such_models(job):
    name, batch, machine, devices = job
    guide = Planner(presets.job(presets.model(name), batch, machine, devices))
    assert WHAT_PEOPLE_DO[job](guide.best), guide.best.knobs
    assert guide.alone is not None, "sharded weights fit without a pipeline"
    assert guide.alone.step < 1.2 * guide.best.step


def test_heads_that_break_kernels_are_warned_of():
    fine, odd = (transformer(4, width, 128, 500, heads=12) for width in (768, 1200))
    machine = MACHINE._replace(bandwidth=1e12)
    assert Planner(Job(fine, 8, machine), PLAIN).warnings() == []
    [warning] = Planner(Job(odd, 8, machine), PLAIN).warnings()
    assert warning.startswith("Attention heads have 100 numbers, not a multiple of 8")
    assert warning in " ".join(str(Planner(Job(odd, 8, machine), PLAIN)).split())


TIGHT = Job(MODEL, 48, MACHINE._replace(devices=4, memory=90e6))
ZERO_BUBBLE = SearchSpace(zero=(1,), tensor=(1,), schedules=("zero_bubble",), recompute=("selective",))
"""Megatron-LM and DeepSpeed have no zero bubble, torchtitan does not recompute attention scores alone."""


def test_a_best_plan_that_no_system_runs_is_told():
    guide = Planner(TIGHT, ZERO_BUBBLE)
    [warning] = guide.warnings()
    assert warning.startswith(
        "No system of `plan --flags` runs the best plan: Megatron-LM (Megatron Core 0.19) "
        "lacks zero_bubble; torchtitan (0.3) lacks recompute selective; DeepSpeed (0.19) lacks zero_bubble."
    )
    for shown in (str(guide), unescape(as_html(guide))):
        assert warning in " ".join(shown.split())


def test_the_fastest_that_a_system_runs_is_told_besides():
    guide = Planner(TIGHT._replace(batch=12), ZERO_BUBBLE._replace(schedules=("zero_bubble", "1f1b")))
    [warning] = guide.warnings()
    running = [plan for plan in guide.fitting if not all(lacking(plan).values())]
    [told] = [plan for plan in running if f"The fastest that one of them runs: {plan.knobs}, " in warning]
    assert guide.best.step * (1 + TIE) < told.step <= (1 + SMALL) * min(plan.step for plan in running)
    assert warning.endswith(f"{told.step / guide.best.step:.2f} times as long, in Megatron-LM (Megatron Core 0.19).")
    [warning] = Planner(TIGHT, ZERO_BUBBLE).warnings()
    assert warning.endswith("They run no other that fits, either.")


def test_nothing_is_said_where_a_system_runs_the_best_plan_or_the_model_is_no_transformer():
    assert Planner(TIGHT, ZERO_BUBBLE._replace(schedules=("1f1b",))).warnings() == []
    assert Planner(TIGHT, ZERO_BUBBLE._replace(recompute=("full",))).warnings() == []
    few = Planner(Job(mlp([256] * 9), 8, TIGHT.machine), ZERO_BUBBLE)
    assert (few.best.schedule, few.warnings()) == ("zero_bubble", [])


def places(plan):
    return sum(not lacks for lacks in lacking(plan).values())


def simplicity(plan):
    cut = plan.K > 1
    schedule = ("1f1b", "gpipe", "interleaved", "zero_bubble", "interleaved_zero_bubble", "zero_bubble_v")
    order = (*schedule, "dual_pipe_v", "breadth_first").index(plan.schedule)
    again = ("none", "selective", "full", "stage").index(plan.recompute)
    size = plan.group.tensor * plan.group.context
    return plan.devices, plan.K, size, plan.zero > 0, order * cut, plan.V, again


def needed(plan):
    """Memory, where a fifth is not to spare."""
    return max(max(plan.memory), 0.8 * plan.job.machine.usable)


TIED = {
    # torchtitan has no ZeRO-1 without a pipeline, which would leave more memory here.
    "systems": (presets.job(presets.model("llama3-8b"), 64, "h100", 8), SearchSpace(zero=(1, 2), schedules=("1f1b",))),
    "places": (TIGHT, ZERO_BUBBLE._replace(schedules=("zero_bubble", "1f1b"))),
    "groups": (presets.job(transformer(40, 5120, 4096, 32000), 128, "h100", 16), SearchSpace(schedules=("1f1b",))),
    "memory": (presets.job(presets.model("qwen3-8b"), 64, "a100-40", 16), SearchSpace(schedules=("1f1b",))),
}


@each("name", TIED)
def test_of_plans_that_cannot_be_told_apart_the_best_runs_in_most_places_then_is_simplest_then_leaves_memory(name):
    guide = Planner(*TIED[name])
    best, first = guide.best, guide.fastest
    promising = [plan for plan in guide.plans if plan.floor <= first.step * (1 + TIE) and plan.fits]
    tied = [plan for plan in promising if plan.step <= first.step * (1 + TIE)]
    assert first.step == min(plan.step for plan in promising)
    assert best in tied
    assert best.step > first.step * (1 + SMALL)  # so that there is a choice
    assert places(best) == max(map(places, tied))
    there = [plan for plan in tied if places(plan) == places(best)]
    assert simplicity(best) == min(map(simplicity, there))
    simple = [plan for plan in there if simplicity(plan) == simplicity(best)]
    assert needed(best) == min(map(needed, simple))
    assert best.step == min(plan.step for plan in simple if needed(plan) == needed(best))
    why = {
        "systems": "this one leaves more memory",
        "places": "this one runs in two of three systems, that one in none",
        "groups": "this one needs no groups of devices",
        "memory": "this one leaves more memory",
    }[name]
    faster = f"{1 - first.step / best.step:.0%} faster on paper, which the planner cannot tell apart; {why}."
    assert f"the fastest, {first.knobs}, is {faster}" in guide.reason()


def test_places_do_not_count_where_one_system_is_asked_for_or_none_can_be():
    job, ways = TIED["places"]
    asked = Planner(job, ways._replace(on="torchtitan", recompute=("full",)))
    for one in (asked, Planner(Job(mlp([256] * 9), 8, TIGHT.machine), ways)):
        assert {one._rank(plan)[0] for plan in one.plans} == {0}


def test_a_safer_plan_has_a_fifth_of_the_memory_to_spare_and_is_the_best_of_those():
    guide = Planner(presets.job(presets.model("llama3-8b"), 64, "h100", 8), SearchSpace(schedules=("1f1b",)))
    best, safer, usable = guide.best, guide.safer, guide.job.machine.usable
    assert max(best.memory) > ROOMY * usable >= max(safer.memory)
    assert safer.step > best.step
    roomy = [plan for plan in guide.fitting if max(plan.memory) <= 0.8 * usable]
    near = [plan for plan in roomy if plan.floor < safer.step and plan.step <= (1 + TIE) * safer.step]
    shortest = min(plan.step for plan in near)
    tied = [plan for plan in near if plan.step <= (1 + TIE) * shortest]
    assert safer in tied
    assert (-places(safer), simplicity(safer)) == min((-places(plan), simplicity(plan)) for plan in tied)
    more = f"{safer.step / best.step - 1:+.0%} time, {size(max(safer.memory))} instead of {size(max(best.memory))}"
    assert guide.room().startswith(f"{safer.knobs}: {more}")
    roomy_best = Planner(presets.job(presets.model("llama3-8b"), 128, "h100", 64), SearchSpace(schedules=("1f1b",)))
    left = size(72e9 - max(roomy_best.best.memory))
    assert roomy_best.room() == f"this one: it leaves {left} of 72 GB to spare."
    assert roomy_best.safer == roomy_best.best


def test_only_what_is_near_the_fastest_is_said_to_be_a_tie():
    """The best is itself slower than the fastest here, and the best without a pipeline, near it, too far from that."""
    guide = Planner(presets.job(presets.model("olmo2-7b"), 256, "rtx4090", 32))
    fastest, best, alone = guide.fastest.step, guide.best.step, guide.alone.step
    assert fastest < best < alone < best * (1 + TIE)
    assert alone > fastest * (1 + TIE)
    said = guide.reason()
    assert (
        f"a pipeline is fastest: the best without a pipeline, {guide.alone.knobs}, takes {alone / best:.2f} times"
        in said
    )
    assert said.count("cannot tell apart") == 1
    assert f"the fastest, {guide.fastest.knobs}, is {1 - fastest / best:.0%} faster on paper, which the planner" in said


def test_what_saves_hardly_any_memory_is_not_called_safer():
    guide = Planner(presets.job(presets.model("llama3-8b"), 32, "h100", 4))
    best, safer = max(guide.best.memory), max(guide.safer.memory)
    assert ROOMY * 72e9 < best < safer + 0.03 * 72e9
    assert guide.room() == f"this one: it leaves {size(72e9 - best)} of 72 GB to spare."


def test_where_no_plan_leaves_a_fifth_of_the_memory_it_says_so(found):
    least = min(max(plan.memory) for plan in found.plans)
    tight = Planner(JOB._replace(machine=MACHINE._replace(memory=1.1 * least / 0.9)), PLAIN)
    assert (tight.safer, tight.room()) == (None, "none: no plan leaves 20% of the memory.")
    with pytest.raises(ValueError, match="nothing fits"):
        Planner(JOB._replace(machine=MACHINE._replace(memory=20e6)), PLAIN).room()


def test_when_nothing_fits_it_says_what_is_short_and_each_cure_cures():
    small = JOB._replace(machine=MACHINE._replace(devices=2, memory=60e6))
    poor = Planner(small, PLAIN)
    assert poor.best is None
    assert poor.changes() == []
    with pytest.raises(ValueError, match="nothing fits"):
        poor.reason()
    plan = min(poor.plans, key=lambda plan: max(plan.memory))
    k = plan.fullest
    for words in (
        "Of the ways weighed, none fits.",
        f"The closest is D={plan.D}, K={plan.K}, M={plan.M}",
        f"device {k} needs {size(plan.memory[k])} and may use 54 MB, so it is {size(plan.memory[k] - 54e6)} short",
        f"{size(plan.state[k])} of weights",
        f"{size(plan.activations[k])} of activations",
    ):
        assert words in poor.shortage()
    memory, devices = poor.cures()  # no batch is small enough for these weights, and no replica has room
    needed = max(plan.memory) / 0.9
    assert memory == f"devices of {size(needed)} instead of 60 MB"
    assert Planner(small._replace(machine=small.machine._replace(memory=needed * 1.0001)), PLAIN).best is not None
    count = int(devices.split()[0])
    assert Planner(small._replace(machine=small.machine._replace(devices=count)), PLAIN).best is not None
    assert Planner(small._replace(machine=small.machine._replace(devices=count // 2)), PLAIN).best is None


def test_devices_are_a_cure_up_to_64_times_as_many():
    ways = PLAIN._replace(recompute=("full",))
    for blocks, cured in ((62, True), (126, False)):
        job = Job(transformer(blocks, 256, 32, 50), 64, Machine(1, 1e12, 1e12), STATES["mixed-adam"])
        many = job._replace(machine=job.machine._replace(devices=blocks + 2))
        needed = min(max(plan.memory) for plan in Planner(many, ways).plans)
        poor = Planner(job._replace(machine=job.machine._replace(memory=needed * 1.0001 / 0.9)), ways)
        assert ("64 devices instead of 1" in poor.cures()) == cured
        assert any("devices instead" in cure for cure in poor.cures()) == cured


def test_where_the_state_is_to_blame_zero_is_a_cure():
    # Three layers, of which one has nearly all weights: a cut helps little.
    job = Job(transformer(1, 256, 32, 50), 12, Machine(6, 1e12, 1e12), STATES["mixed-adam"])
    needed = [min(max(plan.memory) for plan in Planner(job, PLAIN._replace(zero=(zero,))).plans) for zero in (1, 0)]
    tight = job._replace(machine=job.machine._replace(memory=sum(needed) / 2 / 0.9))
    poor = Planner(tight, PLAIN)
    assert poor.best is None
    assert poor.cures()[-1] == "ZeRO-1, which spreads the optimizer's state over the replicas"
    assert Planner(tight, PLAIN._replace(zero=(1,))).best is not None


def test_where_activations_are_to_blame_a_smaller_batch_is_a_cure():
    wide = Job(transformer(4, 64, 512, 100), 4096, Machine(2, 10e6, 1e12))
    poor = Planner(wide, PLAIN)
    assert poor.best is None
    cure = next(cure for cure in poor.cures() if "mini-batch" in cure)
    batch = int(cure.split()[3])
    assert Planner(wide._replace(batch=batch), PLAIN).best is not None
    assert Planner(wide._replace(batch=2 * batch), PLAIN).best is None


def test_too_many_devices_are_refused():
    with pytest.raises(ValueError, match="devices is 16385; the guide plans for at most 16384"):
        guide(JOB._replace(machine=MACHINE._replace(devices=16385)))


@each(
    "count, words",
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (2.5e6, "2.5 MB"),
        (61.9e9, "61.9 GB"),
        (999.6e6, "1 GB"),
        (3.32e15, "3320 TB"),
    ],
)
def test_sizes_are_readable(count, words):
    assert size(count) == words


def test_bars_are_as_long_as_their_share():
    assert bar(0, 4) == "    "
    assert bar(0.5, 4) == "██  "
    assert bar(1, 4) == bar(3, 4) == "████"
    assert bar(1 / 32, 4) == "▏   "


def test_durations_are_readable():
    assert [duration(seconds) for seconds in (2.5, 0.0401, 3e-5)] == ["2.5 s", "40.1 ms", "30 µs"]


def test_what_a_slower_plan_costs_adds_up(found):
    rest = r"; everything else takes (?P<rest>.+) (?P<sign>more|less)"
    words = rf"takes [\d.]+ times as long: .* cost (?P<most>[^;]+) more(?:{rest})?"
    signs = set()
    for plan in found.plans:
        told = re.fullmatch(words, found._loss(plan, found.best))
        if told is None:
            assert plan.step <= (1 + TIE) * found.best.step
            continue
        rest = told["rest"] and seconds(told["rest"]) * (-1 if told["sign"] == "less" else 1)
        lost = seconds(told["most"]) + (rest or 0.0)
        assert lost == pytest.approx(plan.step - found.best.step, abs=TIE * found.best.step + 0.002 * abs(lost))
        signs.add(told["sign"])
    assert signs == {"more", "less", None}


def seconds(text):
    """What `duration` has written."""
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]


def test_plans_and_guides_show_themselves(found):
    assert repr(Plan(JOB, 1, 2, 4, "none")).startswith("Plan(D=1, K=2, M=4, 1f1b, recompute none: planned step ")
    lines = str(found).splitlines()
    assert f"Best: {found.best.knobs}. {found.reason()}" in " ".join(lines)
    assert max(map(len, lines)) <= 100
    (best,) = (line for line in lines if line.startswith("*"))
    assert best.split()[1:6] == [str(found.best.D), str(found.best.K), str(found.best.M), "1", "0"]
    poor = Planner(JOB._replace(machine=MACHINE._replace(memory=20e6)), PLAIN)
    assert poor.shortage() in str(poor).replace("\n", " ")
    assert all(f"cure: {cure}" in str(poor) for cure in poor.cures())


def test_the_smallest_number_of_stages_per_device_is_always_weighed_a_larger_one_where_it_saves_enough_of_the_bubble():
    job = Job(transformer(62, 64, 32, 500, heads=4), 1024, Machine(128, 1e9, 1e12, link=1e10))
    ways = SearchSpace(zero=(0,), tensor=(1,), schedules=("interleaved",), recompute=("none",))
    weighed = {(plan.K, plan.M, plan.V) for plan in Planner(job, ways).plans if plan.K > 1}
    divisions = {(K, M) for K, M, _ in weighed}
    for less, V in ((None, 2), (2, 4), (4, 8)):
        saves = {(K, M) for K, M in divisions if less is None or (K - 1) / M * (1 / less - 1 / V) > 0.01}
        assert {(K, M) for K, M, found in weighed if found == V} == {(K, M) for K, M in saves if K * V <= 64}
        assert saves


def test_a_plan_that_has_to_run_somewhere_does_and_is_the_best_of_those():
    job = Job(transformer(14, 64, 32, 500, heads=4, fused=False), 32, Machine(8, 1e9, 1e12, link=1e10, node=8))
    assert {ANY, *SYSTEMS} == {"any", "megatron", "torchtitan", "deepspeed"}
    for system in SYSTEMS:
        bound = Planner(job, SearchSpace(on=system))
        assert bound.ways.schedules == (SCHEDULES if system == "torchtitan" else USUAL)
        free = Planner(job, SearchSpace(schedules=bound.ways.schedules))
        assert {plan.knobs for plan in bound.plans} == {
            plan.knobs for plan in free.plans if not lacking(plan)[full_name(system)]
        }
        assert bound.best.step >= free.best.step
        assert str(bound.ways).endswith(f"Only what {full_name(system)} runs.")
    with pytest.raises(ValueError, match="on is 'slurm'; it may be any, megatron, torchtitan, deepspeed"):
        SearchSpace(on="slurm").check()
    for ways, wanted in (
        ({"zero": (1,), "tensor": (8,)}, "ZeRO-1"),
        ({"zero": (1,), "tensor": (8,), "recompute": ("stage",)}, "ZeRO-1 or recompute stage"),
        ({"zero": (0, 1), "recompute": ("stage",)}, "recompute stage"),
    ):
        told = rf"no plan is left to weigh: all plans want {wanted}, which torchtitan \(0.3\) lacks \(--on\)$"
        with pytest.raises(ValueError, match=told):
            Planner(job, SearchSpace(on="torchtitan", **ways))


def test_where_the_fastest_plans_run_is_what_their_flags_lack():
    job = Job(transformer(14, 64, 32, 500, heads=4, fused=False), 32, Machine(8, 3e6, 1e12, link=1e10, node=8))
    homes = Planner(job).homes()
    assert 1 <= len(homes) <= 3
    assert [plan.step for plan, _ in homes] == sorted(plan.step for plan, _ in homes)
    for plan, words in homes:
        runs, _, rest = words.partition("; ")
        for system, lacks in lacking(plan).items():
            assert (system in runs) == (not lacks)
            assert (f"{system} lacks {' and '.join(lacks)}" in rest) == bool(lacks)
    by_file = Plan(job, 1, 2, 8, schedule="zero_bubble")
    assert where(by_file).startswith("runs in torchtitan (0.3) if it is given the schedule as a file; ")
    assert where(Plan(job, 1, 2, 8, schedule="zero_bubble_v", recompute="stage")).startswith("runs in none of them; ")


def test_beside_a_pipeline_only_that_zero_is_weighed_which_some_system_has_there_unless_more_is_asked_for():
    job = Job(transformer(14, 64, 32, 500, heads=4), 32, Machine(8, 1e9, 1e12, link=1e10, node=8))
    both = SearchSpace(tensor=(1,), schedules=("1f1b", "breadth_first"), recompute=("none",))
    weighed = {(plan.K > 1, plan.recipe, plan.zero) for plan in Planner(job, both).plans if plan.D > 1}
    assert {zero for cut, _, zero in weighed if not cut} == set(ZERO)
    assert {zero for cut, recipe, zero in weighed if cut and recipe == "1f1b"} == {0, 1}
    assert {zero for cut, recipe, zero in weighed if cut and recipe == "breadth_first"} == {0, 1, 2}
    assert "(beside a pipeline at most 1, or 2 in breadth_first: no system of --flags does more there)" in str(both)
    asked = both._replace(zero=(2,))
    assert {plan.zero for plan in Planner(job, asked).plans if plan.K > 1 and plan.D > 1} == {2}
    assert "as its authors describe it; beside a pipeline, systems of --flags do so only in breadth_first" in str(asked)
    assert "beside a pipeline" not in str(both._replace(zero=(0, 1)))
    # Every system of --flags says the same of such plans.
    for plan in Planner(job, both).plans:
        if plan.D > 1:
            beside = [thing for lacks in lacking(plan).values() for thing in lacks if "beside a pipeline" in thing]
            assert len(beside) < len(SYSTEMS)
