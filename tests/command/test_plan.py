"""`python -m gpipe_edu plan` as a person meets it."""

import re
from functools import partial

import pytest

from gpipe_edu.sizing import WAYS, Guide, Job, Machine, transformer
from gpipe_edu.sizing.guide import duration


@pytest.fixture
def run(run):
    return partial(run, "plan")


def test_it_recommends_what_the_guide_finds_and_says_that_it_is_planned(run):
    best = Guide(Job(transformer(24, 1024, 1024, 32000), 32, Machine(4, 16e9, 10e12, 50e-6, 10e9))).best
    code, out, _ = run()
    assert code == 0
    assert f"Best: {best.knobs}" in out
    (marked,) = re.findall(r"^\* +(.*)", out, re.MULTILINE)
    assert marked.split()[:4] == [str(best.D), str(best.K), str(best.M), best.recompute]
    assert duration(best.step) in marked
    assert "All times below are planned" in out.replace("\n", " ")
    assert "one knob turned" in out
    assert " ".join(out.split()).endswith(WAYS)


def test_every_option_reaches_the_plan(run):
    options = {
        "--model": "mlp",
        "--layers": "6",
        "--width": "500",
        "--batch": "64",
        "--devices": "4",
        "--memory": "0.5",
        "--speed": "2",
        "--overhead": "5",
        "--link": "1",
        "--network": "0.5",
        "--node": "2",
        "--latency": "3",
        "--reserve": "0.2",
        "--optimizer": "sgd",
        "--activation-bytes": "2",
        "--schedule": "interleaved",
        "--virtual": "2",
    }
    base = [word for pair in options.items() for word in pair]
    _, out, _ = run(*base)
    assert "MLP of 6 layers" in out
    assert "400 MB may be used" in " ".join(out.split())
    shown = run(*base, "--all")[1]
    for name, other in (
        *(("--layers", "5"), ("--width", "600"), ("--batch", "128"), ("--devices", "2"), ("--memory", "0.4")),
        *(("--speed", "1"), ("--overhead", "9"), ("--link", "0.01"), ("--reserve", "0.1"), ("--optimizer", "adam")),
        *(("--activation-bytes", "4"), ("--schedule", "gpipe"), ("--network", "0.01"), ("--node", "1")),
        *(("--latency", "900"), ("--virtual", "3"), ("--tensor", "2")),
    ):
        changed = [word for pair in {**options, name: other}.items() for word in pair]
        assert run(*changed, "--all")[1] != shown, name
    zero = [word for pair in {**options, "--optimizer": "adam"}.items() for word in pair]
    assert run(*zero, "--all", "--zero")[1] != run(*zero, "--all")[1]


def test_a_real_model_on_real_machines_by_name(run):
    code, out, _ = run("--model", "llama3-8b", "--machine", "h100", "--devices", "8", "--batch", "64", "--zero")
    assert code == 0
    words = " ".join(out.split())
    assert "8,028,164,096 parameters" in words
    assert "8 devices of 80 GB" in words
    assert "593 TFLOP/s" in words
    assert "16 bytes per parameter, of which ZeRO-1 spreads 12" in words


def test_all_shows_every_plan(run):
    arguments = ("--model", "mlp", "--layers", "4", "--width", "64", "--batch", "8", "--devices", "2")
    rows = r"^\*? +\d+ +\d+ +\d+ +(?:none|full|stage) "
    few, every = run(*arguments)[1], run(*arguments, "--all")[1]
    assert len(re.findall(rows, few, re.MULTILINE)) == 2
    # (D, K) is (1, 1), (1, 2) or (2, 1): 8 samples are cut into 1, 2, 3, 4 or 8 pieces, 4 into 1, 2 or 4.
    assert len(re.findall(rows, every, re.MULTILINE)) == (5 + 5 + 3) * 3


def test_when_nothing_fits_it_says_how_much_is_short_and_exits_with_1(run):
    code, out, _ = run("--memory", "1.5")
    assert code == 1
    assert "Of the ways weighed nothing fits." in out
    assert re.search(r"may use 1.35 GB, so \d+ MB are short", " ".join(out.split()))
    assert "8 devices instead of 4" in out
    assert " ".join(out.split()).endswith(WAYS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--devices", "0"], "--devices"),
        (["--devices", "four"], "--devices"),
        (["--devices", "20000"], "devices is 20000; the guide plans for at most 16384"),
        (["--memory", "0"], "memory is 0.0; it must be more than 0"),
        (["--memory", "-16"], "memory is -16"),
        (["--memory", "16GB"], "--memory"),
        (["--memory", "nan"], "memory is nan"),
        (["--speed", "0"], "speed is 0.0; it must be more than 0"),
        (["--link", "0"], "link is 0.0; it must be more than 0"),
        (["--overhead", "-1"], "overhead is -"),
        (["--reserve", "1"], "reserve is 1.0; it must be at least 0 and below 1"),
        (["--batch", "0"], "--batch"),
        (["--layers", "0"], "--layers"),
        (["--model", "resnet"], "model is 'resnet'; it must be one of transformer, mlp, gpt3"),
        (["--machine", "h300"], "'h300' is none of the machines known by name: h100"),
        (["--tensor", "3"], "4 accelerators make no groups of 3"),
        (["--network", "-1"], "network is -"),
        (["--optimizer", "lion"], "optimizer is 'lion'; it must be one of sgd, momentum, rmsprop, adam, mixed-adam"),
        (["--schedule", "naive"], "schedule is 'naive'; it must be one of gpipe, 1f1b, interleaved"),
        (["--activation-bytes", "0"], "--activation-bytes"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(run, arguments, says):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert re.fullmatch(rf"error: .*{re.escape(says)}.*\n", err)
