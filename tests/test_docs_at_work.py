"""What docs/at_work.md shows of a Hugging Face decoder runs as it stands, and gives one device's loss and gradients."""

import re
from pathlib import Path

import pytest

import gpipe_edu as ge
from tests.processes import PATIENCE

from .cluster import starting

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "at_work.md").read_text(encoding="utf-8")
WHOLE, OURS, THEIRS = (
    next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if word in block)
    for word in ("def as_layers", "with Ranks() as ranks", "_load_csv")
)
ALONE = WHOLE.partition("pipe = GPipe")[0]
"""The page's model, without a pipeline."""


@pytest.fixture
def torch():
    pytest.importorskip("transformers", reason="the page takes its decoder from transformers")
    return pytest.importorskip("torch", minversion="2.12", reason="the page trains with PyTorch")


def on_one_device(page):
    """The loss of Hugging Face's own model, with its gradients in it."""
    logits = page["model"](input_ids=page["x"]).logits
    value = page["loss"](logits, page["y"])
    value.backward()
    return value.item()


@pytest.mark.parametrize("tied", [True, False])
def test_the_layers_in_a_row_are_the_model(torch, tied):
    text = WHOLE.replace("tie_word_embeddings=True", f"tie_word_embeddings={tied}")
    page = {}
    exec(compile(text, "at_work.md", "exec"), page)
    found = {name: weight.grad.clone() for name, weight in page["model"].named_parameters()}
    page["model"].zero_grad()
    on_one_device(page)
    assert ("lm_head.weight" in found) is not tied
    for name, weight in page["model"].named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-6)


def run(tmp_path, text):
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    with starting.torchrun(str(program)) as process:
        told = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0, told
    return [float(number) for number in re.findall(r"loss ([\d.]+)", told)]


def test_a_process_for_each_stage_gives_its_loss(torch, tmp_path):
    page = {}
    exec(compile(ALONE, "at_work.md", "exec"), page)
    expected = on_one_device(page)
    assert run(tmp_path, f"{ALONE}\n{OURS}\nif value is not None:\n    print('loss', float(value))") == [
        pytest.approx(expected, rel=1e-5)
    ]


def test_pytorchs_own_engine_gives_its_loss_by_our_schedule(torch, tmp_path):
    alone = ALONE.replace("tie_word_embeddings=True", "tie_word_embeddings=False")
    page = {}
    exec(compile(alone, "at_work.md", "exec"), page)
    ge.zero_bubble(2, 4).to_csv(tmp_path / "plan.csv")
    theirs = THEIRS.replace('"plan.csv"', repr(str(tmp_path / "plan.csv")))
    [found] = run(tmp_path, f"{alone}\n{theirs}\nif losses:\n    print('loss', float(sum(losses) / 4))")
    assert found == pytest.approx(on_one_device(page), rel=1e-5)
