"""A function that a learner types is called and compared: right ones of any form pass, each slip has its sentence."""

import inspect
import textwrap
from pathlib import Path

import nbformat
import pytest

from gpipe_edu.course import attempt, solves
from gpipe_edu.course.typed_functions import slip_of_peaks, slip_of_worker

ROOT = Path(__file__).resolve().parents[2]
SLIPS_OF_A_WORKER = {
    ".detach()": {"": "The backward ran on into the stage in front"},
    ".requires_grad_()": {"": "`None` was sent to the front"},
    "values.get().detach().requires_grad_()": {"...": "the layers get `...`"},
    "range(M)": {
        "range(M + 1)": "it asks `values` for more than M micro-batches",
        "range(M - 1)": "it asks `gradients` before all results",
    },
    "results.put(held[-1][1])": {
        "...": "before all results have gone on",
        "results.put(start)": "is not what the layers",
    },
    "reversed(held)": {"held": "the last micro-batch first"},
    "result.backward(gradients.get())": {
        "...": "3 of 3 gradients were not taken",
        "result.backward()": "RuntimeError: grad can be implicitly",
        "result.sum().backward(); gradients.get()": "The input gradients are not the same as on one device",
    },
    "input_gradients.put(start.grad)": {
        "...": "Of 3 micro-batches 0 input gradients",
        "input_gradients.put(start.grad); [one.grad.zero_() for one in WEIGHTS(result)]": "gradients of the weights",
    },
}


def worker_of(source):
    names = {"WEIGHTS": lambda result: [node.variable for node in leaves(result.grad_fn)][:1]}
    exec(source, names)
    return names["stage_worker"]


def leaves(node):
    """The nodes of an autograd graph at which a parameter collects its gradient."""
    for before, _ in node.next_functions:
        if hasattr(before, "variable") and before.variable.dim() == 1:
            yield before
        elif before is not None:
            yield from leaves(before)


def written_differently(layers, M, values, results, gradients, input_gradients):
    starts = [values.get().detach().clone().requires_grad_() for _ in range(M)]
    outputs = [layers(start) for start in starts]
    for output in outputs:
        results.put(output.detach())
    while outputs:
        outputs.pop().backward(gradients.get())
        input_gradients.put(starts.pop().grad)


def test_a_worker_is_judged_by_its_gradients():
    pytest.importorskip("torch")
    from gpipe_edu.pytorch.study import stage_worker

    assert slip_of_worker(stage_worker) == slip_of_worker(written_differently) == ""
    source = textwrap.dedent(inspect.getsource(stage_worker))
    body = source[source.index("    held = []") :]
    head = "def stage_worker(layers, M, values, results, gradients, input_gradients):\n"
    for line, slips in SLIPS_OF_A_WORKER.items():
        for slip, told in slips.items():
            assert line in body
            found = slip_of_worker(worker_of(head + body.replace(line, slip)))
            assert told in found, slip
    with pytest.raises(TypeError, match="it must be a function"):
        slip_of_worker(3)


def test_peaks_are_judged_by_a_simulated_step():
    kept, less = (lambda N, L, K, M: N + N * L / K), (lambda N, L, K, M: N * (1 + L / (K * M)))
    assert slip_of_peaks([kept, less]) == ""
    for typed, told in {
        (less, less): "All M interiors are there.",
        (kept, kept): "Only one interior stands at a time",
        (lambda N, L, K, M: N * L / K, less): "The boundary inputs are missing.",
        (kept, lambda N, L, K, M: N + L * N / M): "A device has L/K of the layers, not all.",
        (kept, lambda N, L, K, M: N / M + L / K * N / M): "of all M micro-batches stay, not of one.",
        (kept, lambda N, L, K, M: ...): "Where re-materialized, there is still a `...` in it.",
        (lambda N, L, K, M: "N", less): "returns 'N', which is no number.",
        (kept, lambda N, L, K, M: N): "holds 2048 samples",
    }.items():
        assert told in slip_of_peaks(typed)
    for strange in (kept, [kept], [1, 2]):
        with pytest.raises(TypeError, match="it must be two functions"):
            slip_of_peaks(strange)
    assert solves("05/two-peaks", [kept, less])
    assert not solves("05/two-peaks", [less, kept])


def test_what_the_lessons_store_is_open_and_runs_with_ours(capsys):
    """The lines are left out, and with nothing typed a lesson goes on."""
    pytest.importorskip("torch")
    cells = {
        cell.id: cell.source
        for name in ("05_rematerialization", "06_pytorch_pipeline")
        for cell in nbformat.read(ROOT / f"notebooks/{name}.ipynb", 4).cells
    }
    names = {"attempt": attempt, "solves": solves}
    for cell in ("worker", "worker-try", "remat-formula-type"):
        exec(cells[cell], names)
    assert names["worker"] is names["ours"]
    assert capsys.readouterr().out.count("Not yet.") == 2
    assert cells["worker"].count(" ...") == 4
