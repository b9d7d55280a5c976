"""The planner against runs whose papers give enough to plan them, and against the page that says how far off it is."""

import re
from pathlib import Path

import pytest

from gpipe_edu.sizing import Plan
from gpipe_edu.sizing.presets import job, model, presets

PAGE = (Path(__file__).parents[2] / "docs" / "published_runs.md").read_text(encoding="utf-8")


def megatron():
    """Operations per second of an A100, with the recompute: 163e12 reported."""
    run = job(model("megatron-1t"), 3072, "a100", 3072, tensor=8, schedule="interleaved", virtual=2)
    return Plan(run, 6, 64, 512, "full").rate / 1e12


def llama(devices):
    """The share of an H100's peak, in percent: 41 of 16,384 and 43 of 8,192 reported."""
    run = job(model("llama3-405b"), 2048, "h100", devices, tensor=8, schedule="interleaved", virtual=8, zero=True)
    D = devices // 8 // 16
    return Plan(run, D, 16, 2048 // D, "none").rate / 989e12 * 100


@pytest.mark.parametrize(
    ("run", "planned", "reported"),
    [
        ("Megatron-LM, 1 trillion parameters, 3,072 A100", megatron, 163),
        ("Llama 3 405B, 16,384 H100", lambda: llama(16384), 41),
        ("Llama 3 405B, 8,192 H100", lambda: llama(8192), 43),
    ],
)
def test_a_published_run_is_planned_within_a_fifth_and_the_page_says_so(run, planned, reported):
    value = planned()
    assert abs(value / reported - 1) < 0.2
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| {run} |"))
    *_, shown, said, off = (float(re.search(r"[-+]?\d+", cell).group()) for cell in row.strip("| ").split("|")[2:])
    assert (shown, said) == (round(value), reported)
    assert off == round(100 * (value / reported - 1))


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
