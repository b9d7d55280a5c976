"""What is measured of a machine: the figures from known times, and a real run from the shell to a plan."""

import pytest

from gpipe_edu.sizing import machine_file, mlp, presets
from gpipe_edu.sizing.machine_file import Product

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="measuring needs torch")

from gpipe_edu.cluster import link_speed  # noqa: E402 (it loads torch)
from gpipe_edu.cluster.link_speed import LARGE, Link  # noqa: E402
from gpipe_edu.sizing import measurement  # noqa: E402 (it loads torch)
from gpipe_edu.sizing.measurement import Device, Shapes, measure_device, measure_machine  # noqa: E402

SMALL = Shapes(8, (16, 32), 1 << 16, 0.001)


def test_figures_are_work_over_time(monkeypatch):
    """Everything takes two seconds, and is done once so that it can be done."""
    monkeypatch.setattr(measurement, "_quickest", lambda action, seconds: (action(), 2.0)[1])
    monkeypatch.setattr(measurement.dist, "get_world_size", lambda: 1)
    monkeypatch.setattr(measurement.dist, "barrier", lambda: None)
    found = measure_device(torch.device("cpu"), SMALL)
    assert found.speeds == (2 * 8 * 16 * 16 / 2, 2 * 8 * 32 * 32 / 2)  # a product and a sum each
    assert found.bandwidth == 2 * 65536 / 2  # read and written
    assert found.overhead == 2 / 20  # of 20 blocks
    assert (found.link, found.latency) == (None, None)


def test_the_slowest_device_counts(monkeypatch):
    devices = [
        Device("a core", 8e9, (5.0, 7.0), 3.0, 0.1, 9.0, 0.2),
        Device("a core", 6e9, (6.0, 4.0), 2.0, 0.3, 9.0, 0.2),
        Device("a core", 7e9, (6.0, 9.0), 4.0, 0.2, None, None),
    ]
    monkeypatch.setattr(measurement, "_on_all", lambda count, shapes: devices[:count])
    figures, products = measure_machine(3, SMALL)
    assert products == [Product(16, 5.0), Product(32, 4.0)]
    assert {name: figures[name] for name in ("memory", "bandwidth", "overhead", "link", "latency", "devices")} == {
        "memory": 6e9,
        "bandwidth": 2.0,
        "overhead": 0.3,
        "link": 9.0,
        "latency": 0.2,
        "devices": 3,
    }
    assert (figures["state"], figures["activation"]) == ("adam", 4)


def test_a_link_is_that_of_the_quickest_messages(monkeypatch):
    """A large message takes 2, 1.5 and 3 s in all, an empty one 1, 0.5 and 2.9 s."""
    tries = iter([Link(1.0, LARGE / 1), Link(0.5, LARGE / 1), Link(2.9, LARGE / 0.1)] * 2)
    monkeypatch.setattr(link_speed, "measure", lambda *_: next(tries))
    found = measurement._link(torch.device("cpu"))
    assert found == pytest.approx((0.5, LARGE / 1.0))
    monkeypatch.setattr(link_speed, "measure", lambda *_: None)
    assert measurement._link(torch.device("cpu")) is None


def test_two_processes_measure_this_machine_and_plan_takes_it(tmp_path):
    figures, products = measure_machine(2, SMALL)
    path = tmp_path / "mine.toml"
    machine_file.write(path, figures, products)
    job = presets.job(mlp([32] * 5), 8, str(path))
    assert job.machine.devices == 2
    for name in ("memory", "speed", "bandwidth", "overhead", "link", "latency", "peak"):
        assert getattr(job.machine, name) > 0, name
    assert figures["source"].endswith(f"PyTorch {torch.__version__}")
