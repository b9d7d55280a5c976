"""A machine's file: what is written is read, what is read makes the plans, what is wrong is said."""

import pytest

from gpipe_edu.sizing import STATES, Machine, Planner, machine_file, mlp, presets, transformer
from gpipe_edu.sizing.costs import SHARE
from gpipe_edu.sizing.machine_file import Product

FIGURES = {
    "about": 'two "cores"',
    "source": "measured",
    "devices": 2,
    "memory": 16e9,
    "bandwidth": 8.5e9,
    "overhead": 1.5e-4,
    "link": 2e9,
    "latency": 7e-5,
    "state": "adam",
    "activation": 4,
}
PRODUCTS = [Product(64, 4e10), Product(512, 9e10), Product(2048, 8e10)]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    machine_file.write(path, FIGURES, PRODUCTS)
    return path


def test_a_file_is_read_as_it_was_written(file):
    assert machine_file.read(file) == FIGURES | {"products": PRODUCTS}
    machine_file.write(file, FIGURES | {"link": None}, PRODUCTS)
    assert "link" not in machine_file.read(file)


def test_a_known_name_may_have_capitals():
    assert presets.job(mlp([512] * 9), 32, "H100") == presets.job(mlp([512] * 9), 32, "h100")


def test_its_fields_are_those_of_a_job_s_machine(file):
    job = presets.job(mlp([512] * 9), 32, str(file))
    assert job.machine == Machine(
        2, 16e9, 9e10 * SHARE, 1.5e-4, link=2e9, latency=7e-5, bandwidth=8.5e9, peak=9e10
    )  # bytes, operations and bytes per second, seconds: nothing is converted
    assert (job.state, job.activation) == (STATES["adam"], 4)
    assert presets.job(mlp([512] * 9), 32, str(file), 7).machine.devices == 7
    assert presets.job(mlp([512] * 9), 32, str(file), activation=2).activation == 2


@pytest.mark.parametrize(
    ("model", "speed"),
    [
        (mlp([60, 60, 60, 10]), 4e10),
        (transformer(3, 64, 128, 30000, heads=4), 4e10),  # not the head's many words
        (transformer(3, 600, 128, 300, heads=4), 9e10),
        (transformer(3, 1100, 128, 300, heads=4), 8e10),  # 1100 is 2.1 times 512, and 2048 is 1.9 times 1100
        (mlp([9000] * 3), 8e10),
    ],
)
def test_a_model_is_as_fast_as_the_product_of_its_width(file, model, speed):
    assert presets.job(model, 32, str(file)).machine.speed == speed * SHARE


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory", 8.5e7), ("bandwidth", 1e9), ("overhead", 5e-3), ("link", 1e7), ("latency", 1e-2), ("devices", 4)],
)
def test_plans_change_with_every_field(file, name, value):
    model = mlp([1024] * 9)
    before = Planner(presets.job(model, 256, str(file))).best
    machine_file.write(file, FIGURES | {name: value}, PRODUCTS)
    after = Planner(presets.job(model, 256, str(file))).best
    assert (after.knobs, after.step) != (before.knobs, before.step)


def test_plans_change_with_the_products(file):
    model = mlp([1024] * 9)
    before = Planner(presets.job(model, 256, str(file))).best
    machine_file.write(file, FIGURES, [Product(512, 9e10), Product(1024, 4e10)])
    assert Planner(presets.job(model, 256, str(file))).best.step > 1.5 * before.step


def test_a_file_may_be_written_by_hand_as_a_preset_is(tmp_path):
    path = tmp_path / "h100.toml"
    path.write_text(
        "peak = 989e12\nbest_matmul = 0.803\nmemory = 80e9\nbandwidth = 3.35e12\nlink = 450e9\nnetwork = 50e9\n"
        'node = 8\nlatency = 5e-6\nstate = "mixed-adam"\nactivation = 2\n'
    )
    model = presets.model("gpt2")
    assert presets.job(model, 64, str(path), 16) == presets.job(model, 64, "h100", 16)
    path.write_text('speed = 1e12\nmemory = 16e9\nstate = "sgd"\nactivation = 4\n')
    assert presets.job(model, 64, str(path)).machine == Machine(4, 16e9, 1e12)


GOOD = 'memory = 1e9\nspeed = 1e12\nstate = "adam"\nactivation = 4\n'


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("memory = 16 GB", ValueError, "is no TOML file: "),
        ("memory = 1\nmemory = 2", ValueError, "is no TOML file: "),
        (
            GOOD + "bandwith = 1",
            ValueError,
            "'bandwith' is no field of a machine; it may have about, source, url, devices, ",
        ),
        (GOOD.replace("memory", "#"), ValueError, "'memory' is missing; it must have memory, state, activation, and"),
        (GOOD.replace("speed", "#"), ValueError, "it must have exactly one of [[products]] with width and speed; peak"),
        (GOOD + "[[products]]\nwidth = 8\nspeed = 1", ValueError, "it must have exactly one of [[products]]"),
        (GOOD.replace('"adam"', '"lion"'), ValueError, "state is 'lion'; it must be one of sgd, momentum"),
        (GOOD.replace("4", "0"), ValueError, "activation is 0; it must be at least 1"),
        (GOOD.replace("speed = 1e12", "best_matmul = 1.5\npeak = 1"), ValueError, "best_matmul is 1.5; it must be abo"),
        (GOOD.replace("speed = 1e12", "best_matmul = 0.5"), ValueError, "'peak' is missing; best_matmul is a share of"),
        (GOOD.replace("speed = 1e12", "products = []"), ValueError, "products is empty; there must be one"),
        (GOOD.replace("speed = 1e12", "products = 3"), ValueError, "each of [[products]] must have a width and a spee"),
        (GOOD.replace("speed = 1e12", "products = [{width = 3}]"), ValueError, "each of [[products]] must have a wid"),
        (GOOD.replace("speed = 1e12", "products = [{width = 0, speed = 1}]"), ValueError, "width is 0; it must be at"),
        (GOOD.replace("speed = 1e12", "products = [{width = 8, speed = 0}]"), ValueError, "speed is 0; it must be mor"),
        (GOOD.replace("1e9", '"1 GB"'), TypeError, "memory is '1 GB'; it must be a number"),
        (GOOD.replace("1e9", "-1"), ValueError, "memory is -1"),
        (GOOD + "link = inf", ValueError, "link is inf; it must be finite"),
        (GOOD + "reserve = 2", ValueError, "reserve is 2; it must be at least 0 and below 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path, text, error, says):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(error) as caught:
        presets.job(mlp([4, 4]), 8, str(path))
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        machine_file.read(tmp_path / "none.toml")
    (tmp_path / "picture.toml").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(ValueError, match=r"picture.toml is no TOML file: "):
        machine_file.read(tmp_path / "picture.toml")
