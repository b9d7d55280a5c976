"""`python -m gpipe_edu plan` as a person meets it."""

import json
import re
from functools import partial

import pytest

from gpipe_edu.sizing import Job, Machine, Plan, Planner, SearchSpace, like, mlp, presets, transformer
from gpipe_edu.sizing.flags import command, flags, lacking
from gpipe_edu.sizing.planner import LIKELY, TIE, duration, size

pytestmark = pytest.mark.slow


@pytest.fixture
def run(run):
    return partial(run, "plan")


def test_it_recommends_what_the_guide_finds_and_says_that_it_is_planned(run):
    best = Planner(Job(transformer(24, 1024, 1024, 32000), 32, Machine(4, 16e9, 10e12, 50e-6, 10e9))).best
    code, out, _ = run("--verbose")
    assert code == 0
    assert out.index(f"take     {best.knobs}") < out.index("bubble  MFU")  # the answer comes before the table
    (marked,) = re.findall(r"^\* +(.*)", out, re.MULTILINE)
    assert marked.split()[:5] == [str(best.D), str(best.K), str(best.M), "1", str(best.zero)]
    assert duration(best.step) in marked
    assert "All times below are planned" in out.replace("\n", " ")
    assert "one knob turned" in out
    last = " ".join(out.split()).partition(f"{SearchSpace()} ")[2]  # where a terminal stands
    held = size(max(best.memory))
    assert last == f"So take {best.knobs}: {duration(best.step)} a step, {held} of 14.4 GB on device 0."
    assert "The machine is `small`, an example: name yours" in out


@pytest.mark.sweep
@pytest.mark.parametrize(
    "asked",
    [
        "--layers 40 --width 5120 --context 4096 --vocabulary 32000 --machine h100 --devices 16 --batch 512",
        "--model llama3-70b --machine h100 --devices 64 --batch 512",
        "--model gpt3 --machine a100 --devices 1024 --batch 1536",
        "--model gpt2 --machine h100 --devices 4 --batch 64",
    ],
)
def test_the_first_screen_has_the_answer_why_and_a_safer_one(run, monkeypatch, asked):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(*asked.split())
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 27
    assert max(map(len, lines)) <= 80
    labels = [line[:7].strip() for line in lines if re.match(r"(take|why|safer|runs in) ", line)]
    assert labels == ["take", "why", "safer", "runs in"]
    verbose = run(*asked.split(), "--verbose")[1]
    for heading in ("bubble  MFU", "knob turned  ", "Ways weighed", "memory of device"):
        assert heading not in out
        assert heading in verbose
    answer = json.loads(run(*asked.split(), "--json")[1])
    assert answer["best"]["step"] <= 1.04 * answer["fastest"]["step"]
    assert answer["safer"]["memory"]["memory"] <= 0.8 * 72e9
    held = answer["best"]["memory"]["memory"]
    if held > 0.8 * 72e9:
        assert f"instead of {size(held)}" in " ".join(out.split())
    else:
        assert f"this one: it leaves {size(72e9 - held)} of 72 GB to spare." in " ".join(out.split())


def test_the_answer_and_its_flags_wait_for_no_table(run, monkeypatch):
    """The best plan of each K takes most of a search's time, and is shown only where it is asked for."""

    def never(self):
        raise AssertionError("the table was made")

    monkeypatch.setattr(Planner, "rows", never)
    assert "from plan to run" in run("--model", "gpt2", "--devices", "4", "--flags")[1]
    with pytest.raises(AssertionError, match="the table was made"):
        run("--model", "gpt2", "--devices", "4", "--verbose")


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
        "--bandwidth": "100",
        "--schedule": "interleaved",
        "--virtual": "2",
        "--zero": "0",
        "--recompute": "none",
    }
    base = [word for pair in options.items() for word in pair]
    _, out, _ = run(*base)
    assert "MLP of 6 layers" in out
    assert "an example: name yours" not in out
    assert "400 MB may be used" in " ".join(out.split())
    shown = run(*base, "--all")[1]
    for name, other in (
        *(("--layers", "5"), ("--width", "600"), ("--batch", "128"), ("--devices", "2"), ("--memory", "0.4")),
        *(("--speed", "1"), ("--overhead", "9"), ("--link", "0.01"), ("--reserve", "0.1"), ("--optimizer", "adam")),
        *(("--activation-bytes", "4"), ("--schedule", "gpipe"), ("--network", "0.01"), ("--node", "1")),
        *(("--latency", "900"), ("--virtual", "3"), ("--zero", "2"), ("--recompute", "full"), ("--bandwidth", "9")),
        ("--calibrate", "0.5 D=1 K=2 M=4"),
    ):
        changed = [word for pair in {**options, name: other}.items() for word in pair]
        assert run(*changed, "--all")[1] != shown, name
    words = ("--layers", "2", "--width", "64", "--context", "32768", "--vocabulary", "99", "--all")
    assert len({run(*words, *more)[1] for more in ((), ("--tensor", "2"), ("--sequences", "2"))}) == 3


REAL = ("--model", "llama3-8b", "--machine", "h100", "--devices", "8", "--batch", "64")


def test_a_real_model_on_real_machines_by_name(run):
    code, out, _ = run(*REAL, "--verbose")
    assert code == 0
    words = " ".join(out.split())
    assert "8,028,164,096 parameters" in words
    assert "8 devices of 80 GB" in words
    assert "715 TFLOP/s" in words
    assert "3350 GB/s to its memory" in words
    assert "18 bytes per parameter" in words
    assert "tokens a second, MFU" in words
    likely = f"and half of the others, took {LIKELY[0]:.2f} to {LIKELY[1]:.2f} times the time planned: here "
    assert f"Four in five of the runs that the planner was fitted to, {likely}" in words


def test_memory_and_time_are_shown_by_their_parts(run):
    best = Planner(presets.job(presets.model("llama3-8b"), 64, "h100", 8)).best
    lines = run(*REAL, "--verbose")[1].splitlines()
    for name in ("weights", "gradients", "optimizer", "activations", "products", "memory"):
        [line] = [line for line in lines if re.match(rf"  {name} ", line)]
        values = getattr(best, name) if name in best.held else None
        share = best.parts[name] / best.step if values is None else values[best.fullest] / best.job.machine.usable
        assert line.endswith(f"{share:.0%}")
        assert abs(line.count("█") - 24 * share) < 1


def test_a_measured_step_makes_all_plans_as_slow(run):
    job = presets.job(presets.model("llama3-8b"), 64, "h100", 8)
    step = Plan(job, 8, 1, 8, "full", zero=3).step
    plain, same, slower = (
        json.loads(run(*REAL, "--json", *more)[1])
        for more in ((), *(("--calibrate", f"{times * step} D=8 K=1 M=8 zero=3 recompute=full") for times in (1, 1.5)))
    )
    assert (plain["factor"], same["factor"], slower["factor"]) == (None, pytest.approx(1), pytest.approx(1.5))
    assert same["best"]["step"] == pytest.approx(plain["best"]["step"])
    assert slower["best"]["step"] == pytest.approx(1.5 * plain["best"]["step"])
    out = run(*REAL, "--calibrate", f"{1.5 * step} D=8 K=1 M=8 zero=3 recompute=full")[1]
    assert "As your step says, 1.5 times as slow" in out
    assert "our in five" not in out


def test_other_programs_get_the_same_answer(run):
    code, out, err = run(*REAL, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    guide = Planner(presets.job(presets.model("llama3-8b"), 64, "h100", 8))
    assert answer["best"]["step"] == guide.best.step
    assert answer["best"]["memory"]["memory"] == max(guide.best.memory)
    assert sum(answer["best"]["parts"].values()) == pytest.approx(guide.best.step)
    assert [plan["K"] for plan in answer["plans"]] == [plan.K for plan in guide.rows()]
    assert answer["reason"] == guide.reason()
    code, out, _ = run("--memory", "0.5", "--json")
    assert code == 1
    assert json.loads(out)["best"] is None
    assert json.loads(out)["cures"]


def test_flags_say_what_runs_the_best_plan(run):
    arguments = ("--model", "mlp", "--layers", "8", "--width", "64", "--devices", "2", "--zero", "0")
    best = Planner(Job(mlp([64] * 9), 32, Machine(2, 16e9, 10e12, 50e-6, 10e9)), SearchSpace(zero=(0,))).best
    out = run(*arguments, "--flags")[1]
    assert " ".join(command(best).words) in out
    for system, found in flags(best).items():
        for flag in found:
            row = rf"  {re.escape(flag.knob)} +{re.escape(flag.text)}\n"
            assert re.search(rf"{re.escape(system)}\n(  .*\n)*{row}", out)
    assert "torchrun" not in run(*arguments)[1]
    answer = json.loads(run(*arguments, "--json")[1])
    assert answer["command"] == list(command(best).words)
    assert answer["flags"] == {system: {knob: text for knob, text, _ in found} for system, found in flags(best).items()}
    assert answer["lacking"] == lacking(best)


def test_a_best_plan_that_no_system_runs_is_told_beside_it(run):
    out = run("--model", "llama3-70b", "--machine", "h100", "--devices", "64", "--batch", "512", "--zero", "2")[1]
    assert out.index("take     D=") < out.index("No system of")
    told = out.index("No system of")
    assert "torchtitan (0.3) lacks ZeRO-2 beside a pipeline" in " ".join(out[told:].split())


def test_it_says_where_the_fastest_run_and_plans_for_one_system_alone(run):
    asked = ["--model", "gpt2", "--devices", "4", "--batch", "64"]
    _, out, _ = run(*asked, "--verbose")
    homes = " ".join(out.partition("the fastest, and where they run")[2].split())
    assert re.match(r"D=.*?: [\d.]+ m?s; runs in ", homes)
    _, out, _ = run(*asked, "--on", "megatron", "--verbose")
    assert "Only what Megatron-LM (Megatron Core 0.19) runs. So take " in " ".join(out.split())
    words = run(*asked, "--on", "megatron", "--flags")[1].partition("from plan to run")[2]
    assert "\nMegatron-LM" in words
    assert "\ntorchtitan" not in words
    assert "\nDeepSpeed" not in words
    assert "interleaved_zero_bubble" not in out


def test_what_torchtitan_alone_has_is_weighed_for_it_alone(run):
    asked = ["--model", "gpt2", "--devices", "4", "--batch", "8", "--zero", "0", "--json"]
    for more, weighed in (([], False), (["--on", "torchtitan"], True), (["--on", "deepspeed"], False)):
        assert ("interleaved_zero_bubble" in json.loads(run(*asked, *more)[1])["ways"]["schedules"]) == weighed
    named = ["--schedule", "interleaved_zero_bubble"]
    for more in ([], ["--on", "torchtitan"]):
        answer = json.loads(run(*asked, "--all", *named, *more)[1])
        assert {plan["schedule"] for plan in answer["plans"]} == {None, "interleaved_zero_bubble"}


def test_all_shows_every_plan(run):
    arguments = ("--model", "mlp", "--layers", "4", "--width", "64", "--batch", "8", "--devices", "2", "--zero", "0")
    rows = r"^\*? +\d+ +\d+ +\d+ +1 +0 "
    few = run(*arguments, "--verbose")[1]
    every = run(*arguments, "--all", "--schedule", "1f1b")[1]
    assert len(re.findall(rows, few, re.MULTILINE)) == 2
    # (D, K) is (1, 1), (1, 2) or (2, 1): 8 samples are cut into 1, 2, 3, 4 or 8 pieces, 4 into 1, 2 or 4.
    assert len(re.findall(rows, every, re.MULTILINE)) == (5 + 5 + 3) * 3


def test_when_nothing_fits_it_says_how_much_is_short_and_exits_with_1(run):
    code, out, _ = run("--memory", "0.8")
    assert code == 1
    assert "Of the ways weighed, none fits." in out
    assert re.search(r"may use 720 MB, so it is [\d.]+ MB short", " ".join(out.split()))
    assert re.search(r"\d+ devices instead of 4", out)
    assert " ".join(run("--memory", "0.8", "--verbose")[1].split()).endswith(str(SearchSpace()))


def test_a_published_model_is_planned_with_other_layers_tokens_and_words(run):
    def asked(*arguments):
        out = run("--model", "llama3-8b", "--devices", "1", *arguments)[1]
        return re.match(r"Transformer of (\d+) blocks, ([\d,]+) parameters", out).groups()

    assert asked() == ("32", "8,028,164,096")
    block = (8_028_164_096 - 2 * 128_000 * 4096 - 4096) // 32
    assert asked("--layers", "20") == ("20", f"{8_028_164_096 - 12 * block:,}")
    assert asked("--vocabulary", "1000") == ("32", f"{8_028_164_096 - 2 * 127_000 * 4096:,}")


def test_a_model_from_its_config_json(run, tmp_path):
    config = {"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    config |= {"hidden_size": 64, "num_hidden_layers": 6, "intermediate_size": 96, "vocab_size": 500}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config | {"max_position_embeddings": 8192}), encoding="utf-8")
    model = transformer(6, 64, 4096, 500, hidden=96, gated=True, heads=4, shared_heads=2, tied=True)
    code, out, _ = run("--model", str(file))
    assert code == 0
    assert out.startswith(f"llama of 6 blocks, {model.parameters:,} parameters")
    assert "Samples of 4,096 tokens; the file allows 8,192 (--context)." in out
    assert json.loads(run("--model", str(file), "--context", "32", "--json")[1])["notes"] == []
    file.write_text(json.dumps(config | {"num_local_experts": 8}), encoding="utf-8")
    code, _, err = run("--model", str(file))
    assert code == 2
    assert err.startswith(f"error: {file}: model_type 'llama' is a mixture of experts (num_local_experts is 8) whose")


def test_a_split_of_ones_own_stands_beside_the_best(run):
    words = "--pipeline-model-parallel-size 2 --micro-batch-size 4 --global-batch-size 32 --use-distributed-optimizer"
    asked = ["--layers", "6", "--width", "64", "--vocabulary", "500", "--like", words]
    job = Job(transformer(6, 64, 1024, 500), 32, Machine(4, 16e9, 10e12, 50e-6, 10e9))
    plan = Plan(job, 2, 2, 4, zero=1, balance=(4, 4))
    code, out, _ = run(*asked)
    assert code == 0
    shown = " ".join(out.split())
    assert f"yours, as Megatron-LM would divide it {plan.knobs}: {duration(plan.step)} a step" in shown
    best = Planner(job).best
    assert f"The best takes {best.step / plan.step:.0%} of its time." in shown
    assert best.step < plan.step / (1 + TIE)
    turned = [line.split("  ")[0] for line in out.partition("one knob of yours turned")[2].splitlines()[1:5]]
    assert set(turned) <= {words for words, _ in like.turned(plan)}
    assert "zero_bubble" in dict(like.turned(plan))
    assert "zero_bubble" not in out.partition("one knob of yours turned")[2]  # it has none
    answer = json.loads(run(*asked, "--json")[1])
    assert answer["like"] == plan.as_dict()
    # Its mini-batch is taken, unless one says otherwise.
    assert run(*asked, "--batch", "64", "--json")[1] != run(*asked, "--json")[1]
    model = "--num-layers 6 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 500"
    _, out, _ = run("--like", f"{words} {model}")
    assert out.startswith("Transformer of 6 blocks")
    code, _, err = run("--like", f"{words} {model}", "--layers", "4")
    assert code == 2
    assert "--layers and what --like says both tell the model; give --model, or leave it out" in " ".join(err.split())


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
        (["--model", "none.json"], "none.json: No such file or directory"),
        (
            ["--like", "--lr 1"],
            "has no words by which a plan is told in Megatron-LM, torchtitan, DeepSpeed and nanotron",
        ),
        (["--like", "--pipeline-model-parallel-size 3"], "--like does not tell the model in these words; give --model"),
        (
            ["--like", "--pipeline-model-parallel-size 2 --num-layers 8 --hidden-size 64 --seq-length 8"],
            "the words lack --num-attention-heads and --vocab-size, which Megatron-LM leaves to the tokenizer's files, "
            "so they do not tell the model; add what is missing, or give --model",
        ),
        (
            ["--like", "--pipeline-model-parallel-size 3", "--model", "gpt2"],
            "take 3 devices, which do not divide 4 (--devices)",
        ),
        (["--machine", "h300"], "'h300' is none of the machines known by name: h100"),
        (
            ["--tensor", "3", "--node", "4"],
            "no plan is left to weigh: a tensor group of 3 does not divide a node of 4 devices (--node)",
        ),
        (
            ["--tensor", "8", "--sequences", "1"],
            "no plan is left to weigh: groups of 8 devices need that many, and there are 4 (--devices)",
        ),
        (
            ["--sequences", "2"],
            "no plan is left to weigh: to be cut 2 ways, a sequence needs 16,384 tokens; it has 1,024 (--context)",
        ),
        (
            ["--model", "mlp", "--tensor", "2"],
            "no plan is left to weigh: tensor groups divide the blocks of a Transformer, which this model does not "
            "have",
        ),
        (["--model", "mlp", "--context", "8"], "--context does not apply to mlp; it takes --layers, --width"),
        (
            ["--model", "gpt2", "--width", "8"],
            "--width does not apply to gpt2; it takes --layers, --context, --vocabulary",
        ),
        (["--zero", "4"], "zero has 4; it may have 0, 1, 2, 3"),
        (["--recompute", "all"], "recompute has 'all'; it may have none, selective, full, stage"),
        (["--calibrate", "12 D=4"], "'12 D=4' is not a measured step; write its seconds and its plan, such as"),
        (["--calibrate", "fast D=4 K=1 M=1"], "is not a measured step"),
        (["--calibrate", "12 D=4 K=1 M=1 colour=3"], "'colour=3' is not a knob of a plan; write D, K, M, V, "),
        (["--calibrate", "12 D=8 K=1 M=1"], "D is 8 and K is 1, but there are 4 devices"),
        (["--network", "-1"], "network is -"),
        (["--optimizer", "lion"], "optimizer is 'lion'; it must be one of sgd, momentum, rmsprop, adam, mixed-adam"),
        (["--on", "slurm"], "on is 'slurm'; it may be any, megatron, torchtitan, deepspeed"),
        (["--schedule", "naive"], "schedules has 'naive'; it may have gpipe, 1f1b, interleaved"),
        (["--activation-bytes", "0"], "--activation-bytes"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(run, arguments, says):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert re.fullmatch(rf"error: .*{re.escape(says)}.*\n", err)


def test_a_table_is_no_wider_than_the_terminal(run, monkeypatch):
    heads = {}
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = run("--model", "gpt2-xl", "--devices", "8", "--machine", "h100", "--verbose")[1].splitlines()
        heads[columns] = next(line.split() for line in lines if "bubble  MFU" in line)
        assert max(map(len, lines)) <= columns
        (marked,) = (line for line in lines if line.startswith("* "))
        assert ("█" in marked) == (columns == 120)
    assert set(heads[120]) - set(heads[80]) == {"state", "activ."}
    assert heads[80][-1] == "total"


def test_a_models_name_may_be_written_as_its_makers_do(run):
    assert run("--model", "Llama-3 8B", "--devices", "64")[1] == run("--model", "llama3-8b", "--devices", "64")[1]


def test_a_script_without_its_vocabulary_is_planned_with_the_option_that_gives_it(run, tmp_path):
    script = tmp_path / "train.sh"
    script.write_text(
        "TP=${TP:-2}\n# PP=8\nPP=2\nARGS=(--num-layers 8 --hidden-size 256 --num-attention-heads 4 --seq-length 64)\n"
        "torchrun pretrain_gpt.py ${ARGS[@]} --vocab-file v.json --micro-batch-size 1 --global-batch-size 16 \\\n"
        " --pipeline-model-parallel-size $PP --tensor-model-parallel-size $TP\n"
    )
    code, _, told = run("--like", str(script), "--machine", "h100", "--devices", "4")
    assert code == 2
    assert "lack --vocab-size, which Megatron-LM leaves to the tokenizer's files" in told
    assert "give --vocabulary here, or give --model" in told
    code, out, _ = run("--like", str(script), "--machine", "h100", "--devices", "4", "--vocabulary", "512")
    assert code == 0
    assert "yours, as Megatron-LM would divide it\nD=1, K=2, M=16, tensor=2" in out
