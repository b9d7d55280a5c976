"""`python -m gpipe_edu calibrate` as a person meets it."""

import pytest

from gpipe_edu.sizing.machine_file import Product, read

pytest.importorskip("torch", reason="measuring needs torch")

from gpipe_edu.sizing import measurement

pytestmark = pytest.mark.slow

FIGURES = {
    "about": "2 x a core", "source": "measured", "devices": 2, "memory": 8e9, "bandwidth": 8.17e9, "overhead": 1.6e-4,
    "link": 1.87e9, "latency": 7.6e-5, "state": "adam", "activation": 4,
}  # fmt: skip


def test_it_says_what_it_has_measured_and_plan_takes_the_file(run, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        measurement, "measure_machine", lambda devices: asked.append(devices) or (FIGURES, [Product(64, 8.95e10)])
    )
    path = tmp_path / "mine.toml"
    code, out, _ = run("calibrate", str(path), "--devices", "2")
    assert (code, asked) == (0, [2])
    words = " ".join(out.split())
    assert "products of width 64 89.5 GFLOP/s memory 8.17 GB/s, 8 GB a device a block 160 µs" in words
    assert "between devices 1.87 GB/s, 76 µs for an empty message" in words
    assert out.rstrip().endswith(f"plan --machine {path}")
    assert read(path)["products"] == [Product(64, 8.95e10)]
    code, out, _ = run("plan", "--machine", str(path), "--model", "mlp", "--layers", "4", "--width", "64")
    assert code == 0
    words = " ".join(out.split())
    assert "on 2 devices of 8 GB" in words
    assert f"As {path} says: 0.0805 TFLOP/s" in words
    assert "published runs" not in words


@pytest.mark.parametrize(
    ("name", "says"),
    [("mine.json", "must end in .toml, so that plan knows it for a file"), ("none/mine.toml", "does not exist")],
)
def test_a_file_that_cannot_be_is_refused_before_anything_is_measured(run, tmp_path, monkeypatch, name, says):
    monkeypatch.setattr(measurement, "measure_machine", None)
    code, out, err = run("calibrate", str(tmp_path / name))
    assert (code, out) == (2, "")
    assert says in err


def test_a_machine_s_file_that_is_not_there_is_named(run, tmp_path):
    code, _, err = run("plan", "--machine", str(tmp_path / "mine.toml"))
    assert code == 2
    assert "mine.toml: No such file or directory" in err
