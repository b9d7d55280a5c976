"""The page that says how far the planner is from published runs: its figures are the planner's, its words are true."""

import re
from pathlib import Path

import pytest

from gpipe_edu.sizing import Plan, transformer
from gpipe_edu.sizing.presets import job, model, presets

PAGE = (Path(__file__).parents[2] / "docs" / "published_runs.md").read_text(encoding="utf-8")


def rows():
    return [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| (Megatron|Llama)", line)]


def planned(run, shape, divided):
    """TFLOP/s of an accelerator, counted as the paper does: with Megatron-LM's recompute, which leaves out the head."""
    name, accelerators, machine = re.match(r"(.*) \S+, ([\d,]+) (\w+) ", run).groups()
    blocks, width, heads = numbers(shape)
    knobs = {word: int(value.replace(",", "")) for word, value in re.findall(r"(\w+)(?: =)? ([\d,]*\d)", divided)}
    N, tensor, D, K, M = (knobs[word] for word in ("N", "tensor", "D", "K", "M"))
    pipeline = {"schedule": "interleaved", "virtual": knobs["V"]} if "V" in knobs else {}
    llama = name == "Llama 3"
    net = model("llama3-405b") if llama else transformer(blocks, width, 2048, 51200, heads=heads, fused=False)
    assert (len(net.layers) - 2, net.layers[0].output) == (blocks, width * (8192 if llama else 2048))
    wish = job(net, N, machine.lower(), *numbers(accelerators), tensor=tensor, zero=llama, **pipeline)
    plan = Plan(wish, D, K, M, "none" if llama else "full")
    *layers, head = net.layers
    work = N * (sum(layer.work for layer in layers) * (3 if llama else 4) + head.work * 3)
    return work / plan.step / wish.machine.devices / tensor / 1e12


def numbers(text):
    return [int(found.replace(",", "")) for found in re.findall(r"[\d,]*\d", text)]


@pytest.mark.parametrize(("run", "shape", "divided", "value", "reported", "off"), rows())
def test_the_page_says_what_the_planner_makes_of_each_run(run, shape, divided, value, reported, off):
    found = planned(run, shape, divided)
    assert round(found) == int(value)
    assert f"{found / int(reported) - 1:+.0%}" == off.replace(" ", "")


def test_the_page_says_how_far_off_the_planner_is_and_on_how_many_runs():
    offs = {tuple(row[:3]): int(row[-1].removesuffix(" %")) for row in rows()}
    alone = [off for (_, _, divided), off in offs.items() if "K = 1," in divided]
    words = " ".join(PAGE.split())
    assert len(offs) == 16
    assert "Of twenty rows that we have checked word for word, these are the sixteen" in words
    assert f"From {max(offs.values())} % too fast to {-min(offs.values())} % too slow" in words
    assert f"The rows without a pipeline are {min(alone)} to {max(alone)} % too fast" in words


def test_the_page_says_what_llama_s_plan_would_hold():
    wish = job(model("llama3-405b"), 2048, "h100", 16384, tensor=8, schedule="interleaved", virtual=8, zero=True)
    plan = Plan(wish, 128, 16, 16, "none")
    assert f"holds {plan.memory[plan.fullest] / 1e9:.0f} GB on its fullest device" in PAGE
    assert f"The first saves at most {plan.state[plan.fullest] / 1e9:.0f} GB" in PAGE
    assert plan.activations[plan.fullest] > wish.machine.memory


def test_models_have_the_parameters_of_their_papers():
    for name, billions in {
        "gpt3": 175,
        "llama3-8b": 8,
        "llama3-70b": 70,
        "llama3-405b": 405,
        "megatron-1t": 1008,
    }.items():
        assert model(name).parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_every_preset_says_where_it_comes_from_and_can_be_planned():
    for machine, figures in presets("machines").items():
        assert figures["source"]
        found = job(model("llama3-8b"), 8, machine, 16, tensor=8)
        assert found.machine.devices == 2
        assert found.machine.speed == figures["peak"] * figures["sustained"]
    assert all(figures["source"] for figures in presets("models").values())
    assert job(model("gpt3"), 8, "h100", 8, activation=4).activation == 4


def test_unknown_names_and_groups_that_do_not_come_out_even_are_refused():
    with pytest.raises(ValueError, match="'gpt5' is none of the models known by name: gpt3, "):
        model("gpt5")
    with pytest.raises(ValueError, match="'h300' is none of the machines known by name: h100, "):
        job(model("gpt3"), 8, "h300", 8)
    with pytest.raises(ValueError, match="12 accelerators make no groups of 8; tensor must divide them"):
        job(model("gpt3"), 8, "h100", 12, tensor=8)
