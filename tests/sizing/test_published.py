"""The planner against training runs that others have published, and the page that says how far off it is."""

import re
import statistics
from pathlib import Path

import pytest

from benchmarks import published_moe_runs as mixtures
from benchmarks import published_runs as published
from gpipe_edu.sizing import Job, Machine, Plan, costs, transformer
from gpipe_edu.sizing.planner import LIKELY, OF_MIXTURES, ROOMY, TIE
from gpipe_edu.sizing.presets import job, model, presets

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "published_runs.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


@pytest.fixture(scope="module")
def runs():
    return published.runs()


def test_most_published_runs_are_planned_within_a_tenth(runs, capsys):
    everything, cut, alone = (
        [run.off for run in runs if choose(run)]
        for choose in (lambda _: True, lambda run: run.cut, lambda run: not run.cut)
    )
    with capsys.disabled():
        print(f"\nof {len(everything)} runs within 10 %: {published.within(everything):.1%}")
    assert len(everything) >= 160
    assert published.within(everything) >= 0.6
    assert published.within(cut) >= 0.68
    assert published.within(everything, 0.15) >= 0.85
    assert published.within(published.calibrated(runs)) >= 0.85
    assert published.within(published.calibrated_by_one(runs)) >= 0.75
    table = re.search(r"\| all \| (\d+) \| (\d+) % \| (\d+) % \| ([\d.]+) % \|", PAGE)
    assert len(everything) == int(table[1])
    for offs, row in ((everything, "all"), (cut, "with a pipeline"), (alone, "without one")):
        median = statistics.median(map(abs, offs))
        shares = f"{published.within(offs):.0%} | {published.within(offs, 0.15):.0%} | {median:.1%}".replace("%", " %")
        assert f"| {row} | {len(offs)} | {shares} |" in PAGE
    for share, words in (
        (published.within(published.calibrated(runs)), "are within 10 % once each stack has one factor"),
        (published.within(published.calibrated_by_one(runs)), "of the stack's other runs are within 10 %"),
    ):
        assert f"{share:.0%} {words}".replace("%", " %", 1) in WORDS


def test_runs_that_nothing_was_fitted_to_are_planned_as_the_page_says():
    found = published.held_out()
    others = [run for run in found if run.told["stack"] != "MosaicGPT A100 80 GB"]
    assert len(others) >= 61
    rest = [run for run in found if run not in others]
    for runs, row in ((others, "from other sources"), (rest, "MosaicGPT on A100 80 GB, the predecessor of MPT")):
        offs = [run.off for run in runs]
        median = statistics.median(map(abs, offs))
        shares = f"{published.within(offs):.0%} | {published.within(offs, 0.15):.0%} | {median:.1%}"
        with_factor = f"{published.within(published.calibrated(runs)):.0%}"
        assert f"| {row} | {len(runs)} | {shares} | {with_factor} |".replace("%", " %") in PAGE
    assert published.within(published.calibrated_by_one(others)) >= 0.85
    for stack, group in published.by_stack(found).items():
        offs = sorted(run.off for run in group)
        span = f"{published.span(offs)} | {published.signed(statistics.median(offs))}"
        assert f"| {stack} | {len(group)} | {span} |" in PAGE
    relatives = sum(run.told["relative"] for run in others)
    assert f"{relatives} of the {len(others)}, and MosaicGPT's" in WORDS
    one = published.within(published.calibrated_by_one(others))
    assert f"{one:.0%} of the others are within".replace("%", " %") in WORDS
    page = " ".join((Path(__file__).parents[2] / "docs" / "at_work.md").read_text(encoding="utf-8").split())
    plain = published.within([run.off for run in others])
    assert f"only for {plain:.0%} of {len(others)} other runs".replace("%", " %") in page
    assert f"the plans of {one:.0%} of those {len(others)} runs are within".replace("%", " %") in page


def test_the_page_has_one_message_and_the_rest_is_folded(runs):
    """Measure one step: a reader need not open anything to learn that, and how much it brings."""
    open_part = re.sub(r"<details>.*?</details>", " ", PAGE, flags=re.DOTALL)
    assert len(open_part.split()) <= 1200
    assert PAGE.count("<details>") == PAGE.count("</details>") == PAGE.count("<details><summary>")
    assert "**Measure one step**" in " ".join(PAGE.partition("\n| ")[0].split())
    unseen = [run for run in published.held_out() if run.told["stack"] != "MosaicGPT A100 80 GB"]
    plain = [published.within([run.off for run in some]) for some in (runs, unseen)]
    measured = [published.within(published.calibrated_by_one(some)) for some in (runs, unseen)]
    assert plain == [pytest.approx(2 / 3, abs=0.03), pytest.approx(1 / 3, abs=0.05)]
    assert measured == [pytest.approx(0.78, abs=0.02), pytest.approx(0.9, abs=0.03)]


def test_what_is_held_out_says_where_it_was_read():
    seen = set()
    for run in published.held_out():
        told = run.told
        assert {"source", "checked", "stack", "accelerator"} <= told.keys()
        assert told["devices"] == told["data"] * told["pipeline"] * told["tensor"] * told["context_parallel"]
        seen.add((told["stack"], told["blocks"], told["width"], told["devices"], told["context"], told["micro_batch"]))
    fitted = {
        (told["stack"], told["blocks"], told["width"], told["devices"], told["context"], told["micro_batch"])
        for told in published.data()["run"]
    }
    assert len(seen) == len(published.held_out())
    assert not seen & fitted


def test_seconds_of_a_step_come_from_what_a_source_prints():
    told = {"data": 4, "micro_batch": 2, "micro_batches": 3, "context": 100, "devices": 8}
    assert published._seconds(told | {"tokens_per_second": 600}) == 4
    assert published._seconds(told | {"tps": 75}) == 4
    assert published._seconds(told | {"step": 5}) == 5


def test_a_cut_that_is_told_is_kept():
    told = {"pipeline": 4, "virtual": 2, "blocks": 22}
    assert published.cut(told) is None
    assert published.cut(told | {"cut": "slots"}) == [3] * 8
    assert published.cut(told | {"blocks": 16, "cut": "blocks"}) == [3, 2, 2, 2, 2, 2, 2, 3]
    for run in published.runs():
        if run.told.get("cut") == "blocks" and run.cut:
            assert len(set(run.plan.balance[1:-1])) <= 1


def test_uncalibrated_plans_tell_the_range_of_four_in_five(runs):
    assert published.likely(runs) == pytest.approx(LIKELY, abs=0.005)
    assert f"{LIKELY[0]:.2f} to {LIKELY[1]:.2f} times" in WORDS
    others = [run for run in published.held_out() if run.told["stack"] != "MosaicGPT A100 80 GB"]
    low, high = LIKELY
    inside = sum(low <= 1 / (1 + run.off) <= high for run in others) / len(others)
    assert inside == pytest.approx(0.5, abs=0.06)


def test_plans_of_one_model_that_differ_by_less_than_the_tie_were_reported_in_the_planned_order_as_by_a_coin(runs):
    (near, right), (far, others) = published.told_apart(runs, TIE)
    assert right / near == pytest.approx(0.5, abs=0.1)
    assert others / far > 0.8
    assert f"| less than {100 * TIE:g} % | {near} | {right} |" in PAGE
    assert f"| more | {far} | {others} |" in PAGE
    found = published.pairs(runs)
    assert f"there are {len(found)} pairs of runs of one model" in WORDS
    ratios = [(slow.plan.step / fast.plan.step) / (slow.told["step"] / fast.told["step"]) for fast, slow in found]
    off = statistics.median(max(ratio, 1 / ratio) - 1 for ratio in ratios)
    assert f"within {off:.1%} of the reported".replace("%", " %") in WORDS
    big = sum("BigScience" in fast.told["stack"] for fast, _ in found)
    assert f"{big} of the pairs are BigScience's" in WORDS
    (middle, some), (above, most) = published.told_apart(runs, 0.07)
    between = f"{some - right} of {middle - near} pairs are in order; beyond 7 %, {most} of {above}"
    assert f"Between {100 * TIE:g} and 7 % the plan does no better ({between})" in WORDS
    assert published.told_apart(published.held_out(), TIE) == [(0, 0), (10, 8)]
    assert f"ten such pairs, none of them within {100 * TIE:g} % on paper; eight are in order" in WORDS
    for fast, slow in found:
        assert fast.plan.job == slow.plan.job
        assert fast.plan.step <= slow.plan.step


def test_every_term_of_the_costs_is_needed(runs, monkeypatch):
    """Left out one at a time, fewer runs are planned well; the page says how many."""
    told = [run.told for run in runs]

    def share():
        # The bound is quick to tell, and the step of most runs is hardly longer.
        return published.within(published.plan(each).bound / each["step"] - 1 for each in told)

    whole = share()
    for name, value in (("MOVES", 0), ("ACCUMULATION", 0), ("SHARE", 1), ("SCORE_MOVES", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(costs, name, value)
            left = share()
        assert left < whole - 0.01, name
        assert f"| `{name}` | {left:.0%} |".replace("%", " %") in PAGE


def rows():
    return [
        line.strip("| ").split(" | ") for line in PAGE.partition("<!-- rows -->")[2].splitlines() if " s | " in line
    ]


def test_the_page_s_rows_are_the_planner_s(runs):
    by_name = {run.told["name"]: run for run in runs}
    assert len(rows()) >= 30
    for name, _, _, planned, reported, off in rows():
        run = by_name[name]
        assert planned == f"{run.plan.step:.3g} s"
        assert reported == f"{run.told['step']:.3g} s"
        assert off == published.signed(run.off)


def test_every_run_that_is_not_planned_says_why():
    left_out = [told for told in published.data()["run"] if "not_planned" in told]
    for why in {told["not_planned"] for told in left_out}:
        assert f"| {sum(told['not_planned'] == why for told in left_out)} | {why} |" in PAGE
    for told in published.data()["run"]:
        assert {"name", "paper", "checked", "stack", "step"} <= told.keys()


def test_memory_is_planned_where_it_is_told(runs):
    told = [run for run in runs if "memory_gb" in run.told]
    close = published.within(max(run.plan.memory) / 1e9 / run.told["memory_gb"] - 1 for run in told)
    assert close >= 0.8
    assert f"{len(told)} rows report memory; {close:.0%} of them".replace("%", " %") in WORDS
    *most, _ = held = sorted(run.told["memory_gb"] * 1e9 / max(run.plan.memory) for run in told)
    assert most[-1] == pytest.approx(1.16, abs=0.005)
    assert most[-1] < 1 / ROOMY < held[-1]


@pytest.mark.parametrize("told", [row for row in published.data()["table_1"] if row["recompute"] == "stage"])
def test_gpipe_s_table_1_is_counted(told):
    """Scores are stored, each micro-batch is one sequence, and every stage is recomputed: nothing is adjusted."""
    net = transformer(
        told["blocks"], told["width"], told["context"], told["vocabulary"], heads=told["heads"], fused=False
    )
    K, N = told["devices"], told["batch"]
    wish = Job(net, N, Machine(K, memory=16e9, speed=1e12), activation=4)
    plan = Plan(wish, 1, K, N, "stage", schedule="gpipe")
    counted = sum(plan.activations) / 1e9
    assert counted == pytest.approx(told["activation_gb"], rel=0.03)
    assert f"| {told['blocks']} | {K} | {counted:.3g} | {told['activation_gb']} |" in PAGE


def test_the_page_says_what_llama_s_plan_holds(runs):
    [run] = [run for run in runs if run.told["name"] == "Llama 3 405B on 16384"]
    k = run.plan.fullest
    assert f"{run.plan.memory[k] / 1e9:.0f} GB on its fullest device" in WORDS
    assert f"{run.plan.activations[k] / 1e9:.0f} GB of them activations" in WORDS


def test_models_have_the_parameters_of_their_papers():
    for name, billions in {
        "gpt3": 175,
        "llama3-8b": 8,
        "llama3-70b": 70,
        "llama3-405b": 405,
        "llama3.1-8b-128k": 8,
        "megatron-1t": 1008,
        "qwen3-8b": 8.19,
        "olmo2-1b": 1.485,
        "olmo2-7b": 7.3,
        "gpt2": 0.124 + 50257 * 768 / 1e9,  # the head has weights of its own here
        "gpt2-xl": 1.558 + 50257 * 1600 / 1e9,
    }.items():
        assert model(name).parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert len(presets("models")) == 29


def test_every_preset_says_where_it_comes_from_and_can_be_planned():
    for machine, figures in presets("machines").items():
        assert figures["source"]
        found = job(model("llama3-8b"), 8, machine, 16).machine
        assert found.devices == 16
        if "best_matmul" in figures:
            assert found.speed == pytest.approx(costs.SHARE * figures["peak"] * figures["best_matmul"])
            assert found.peak == figures["peak"]
    assert all(figures["source"] for figures in presets("models").values())
    assert job(model("gpt3"), 8, "h100", 8, activation=4).activation == 4


@pytest.mark.parametrize("name", [name for name in presets("machines") if name not in ("small", "laptop")])
def test_a_machine_s_figures_stand_in_its_source(name):
    figures = presets("machines")[name]
    assert figures["url"].startswith("https://")
    told = [
        (float(number.replace(",", "")), unit)
        for number, unit in re.findall(r"([\d,.]*\d) (TFLOP/s|TB/s|GB/s|GiB|GB)", figures["source"])
    ]
    units = {"TFLOP/s": 1e12, "GB": 1e9, "GiB": 2**30, "TB/s": 1e12, "GB/s": 1e9}
    for field, kinds in (("peak", ("TFLOP/s",)), ("memory", ("GB", "GiB")), ("bandwidth", ("TB/s", "GB/s"))):
        values = [number * units[unit] for number, unit in told if unit in kinds]
        assert any(value == pytest.approx(figures[field], rel=0.004) for value in values), field
    best = [number for number, unit in told if unit == "TFLOP/s" and number * 1e12 < figures["peak"]]
    assert "best product as of" in figures["source"] or best[-1] * 1e12 == pytest.approx(
        figures["peak"] * figures["best_matmul"], rel=0.002
    )


def test_every_model_says_where_its_shape_can_be_read():
    assert all(figures["url"].startswith("https://") for figures in presets("models").values())


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="'gpt5' is none of the models known by name: gpt3, "):
        model("gpt5")
    with pytest.raises(ValueError, match="'h300' is none of the machines known by name: h100, "):
        job(model("gpt3"), 8, "h300", 8)


@pytest.mark.parametrize(("aside", "row"), [(False, "looked at first"), (True, "set aside")])
def test_runs_of_mixtures_are_planned_as_the_page_says(aside, row):
    assert f"| {row} | {mixtures.report(mixtures.runs(aside))} |" in PAGE


def test_what_is_said_beside_plans_of_mixtures_is_what_came_out():
    table, first, aside = mixtures.told(), mixtures.runs(False), mixtures.runs(True)
    assert {run.told["name"] for run in first}.isdisjoint(run.told["name"] for run in aside)
    assert (
        f"has {len(table)} runs of mixtures of experts in bf16, each with its source; {len(first + aside)} can be"
        in WORDS
    )
    offs = [run.off for run in (*first, *aside)]
    assert f"Of {len(offs)} published runs" in OF_MIXTURES
    for share, words in (
        (published.within(offs, 0.15), "are planned within 15 %"),
        (published.within([run.off for run in aside], 0.15), "of those that were set aside"),
    ):
        assert f"{share:.0%} {words}".replace("%", " %", 1) in OF_MIXTURES
    assert f"up to {-min(offs):.0%} too fast or {max(offs):.0%} too slow".replace("%", " %") in OF_MIXTURES
    others = [run.off for run in first if run.told["model"] != "Grok-1"]
    assert f"without them, {published.within(others, 0.15):.0%} of those".replace("%", " %") in WORDS
    reasons = [mixtures.why_not(run) for run in table]
    counts = {why: reasons.count(why) for why in reasons if why}
    assert counts == {"recomputes half of a block": 7, "no preset of the card": 5}
    assert all(run["source"] and run["checked"] and run["model_source"] for run in table)
    assert len({run["name"] for run in table}) == len(table)
