"""What docs/at_work.md shows of models cut into stages runs as it stands, and gives one device's loss and gradients."""

import re
from pathlib import Path

import pytest

import gpipe_edu as ge
from tests.processes import PATIENCE

from .cluster import starting

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "at_work.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
OWN, WHOLE, OURS, THEIRS = (
    next(block for block in BLOCKS if word in block)
    for word in ("class GPT", "AutoModelForCausalLM", "with Ranks() as ranks", "_load_csv")
)
ALONE = {name: block.partition("pipe = GPipe")[0] for name, block in (("own", OWN), ("theirs", WHOLE))}
"""The page's models, without a pipeline."""
TIE = {
    "own": ("        self.head.weight = self.words.weight  # tied\n", ""),
    "theirs": ("tie_word_embeddings=True", "tie_word_embeddings=False"),
}
"""By model, what the page says to change where the head is not to be tied."""


@pytest.fixture
def torch():
    return pytest.importorskip("torch", minversion="2.12", reason="the page trains with PyTorch")


@pytest.fixture(params=ALONE)
def model(request, torch):
    if request.param == "theirs":
        pytest.importorskip("transformers", reason="the page takes its decoder from transformers")
    return request.param


def on_one_device(page):
    """The loss of the model itself, with its gradients in it."""
    x, y = page["x"], page["y"]
    value = page["model"](x, y) if "GPT" in page else page["loss"](page["model"](input_ids=x).logits, y)
    value.backward()
    return value.item()


def test_every_block_runs_alone_or_says_what_it_goes_on_with():
    assert [block for block in BLOCKS if "GPipe(" not in block and not block.startswith("# goes on with ")] == []
    assert "pip install transformers" in PAGE.partition(WHOLE)[0]


@pytest.mark.parametrize("tied", [True, False])
def test_the_layers_in_a_row_are_the_model(torch, model, tied):
    text = {"own": OWN, "theirs": WHOLE}[model]
    page = {}
    exec(compile(text if tied else text.replace(*TIE[model]), "at_work.md", "exec"), page)
    found = {name: weight.grad.clone() for name, weight in page["model"].named_parameters()}
    page["model"].zero_grad()
    on_one_device(page)
    head = {"own": "head.weight", "theirs": "lm_head.weight"}[model]
    assert (head in found) is not tied
    for name, weight in page["model"].named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-6)


def run(tmp_path, text):
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    with starting.torchrun(str(program)) as process:
        told = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0, told
    return [float(number) for number in re.findall(r"loss ([\d.]+)", told)]


def test_a_process_for_each_stage_gives_its_loss(model, tmp_path):
    page = {}
    exec(compile(ALONE[model], "at_work.md", "exec"), page)
    expected = on_one_device(page)
    assert run(tmp_path, f"{ALONE[model]}\n{OURS}\nif value is not None:\n    print('loss', float(value))") == [
        pytest.approx(expected, rel=1e-5)
    ]


def test_pytorchs_own_engine_gives_its_loss_by_our_schedule(model, tmp_path):
    alone = ALONE[model].replace(*TIE[model])
    page = {}
    exec(compile(alone, "at_work.md", "exec"), page)
    ge.zero_bubble(2, 4).to_csv(tmp_path / "plan.csv")
    theirs = THEIRS.replace('"plan.csv"', repr(str(tmp_path / "plan.csv")))
    [found] = run(tmp_path, f"{alone}\n{theirs}\nif losses:\n    print('loss', float(sum(losses) / 4))")
    assert found == pytest.approx(on_one_device(page), rel=1e-5)
