"""A split that runs elsewhere, in the words of the system that runs it: read, and planned beside the best.

A command's words (Megatron-LM, torchtitan), or a file of them (a shell script, JSON, TOML, YAML). `systems.toml` says
what the words mean. What a system would do by itself, such as how many blocks a stage has, is done here likewise.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final, NamedTuple

from gpipe_edu.base.words import join_words
from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.split import balance_by_cost, balance_uniform
from gpipe_edu.split.layout import balance_of_layout

from . import hugging_face
from .job import Job
from .model import Model, transformer
from .plan import RECOMPUTES, SCHEDULES, ZERO, Plan, stages_per_device
from .systems import systems
from .told_words import BARE, words_of

TEXTS: Final = ("layout",)
"""Knobs that are no numbers."""

SAMPLE: Final = "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 256"


class Like(NamedTuple):
    """What was read: knobs by name, and the model, its samples' tokens and how many devices where the words tell them.

    lacks: the words that would tell the model, if some of it is told.
    """

    system: str
    knobs: dict[str, Any]
    model: Model | None
    lacks: tuple[str, ...]
    context: int | None
    devices: int | None
    notes: tuple[str, ...]


def read(text: str) -> Like:
    """text: words of a command, or a file of them.

    Raises ValueError for words of no system that is known here, or of several; for values that are none; for what is
    not planned, by name. OSError for a file that cannot be read.
    """
    given = words_of(text)
    system = _system(given, text)
    return _knobs(system, given)


def plan_like(like: Like, job: Job) -> Plan:
    """The plan of what was read, for this job: D and M follow as they do in its system.

    Raises ValueError where they do not come out even, or for a plan that can't be.
    """
    knobs = like.knobs
    K, tensor, context = (knobs.get(name, 1) for name in ("K", "tensor", "context"))
    D = _replicas(knobs, job, K * tensor * context)
    M = _micro_batches(knobs, job, D)
    stages = _stages_a_device(knobs, len(job.model.layers), K)
    schedule = knobs.get("schedule") or ("interleaved" if stages > 1 else "1f1b")
    if K > 1 and stages_per_device(schedule, stages) != stages:
        raise ValueError(f"{schedule} has {stages_per_device(schedule, None)} stages on each device, not {stages}")
    zero = knobs.get("sharded", 3) if knobs.get("fsdp") else knobs.get("zero", 0)
    if K > 1 and zero > 1 and knobs["system"] in ("megatron", "deepspeed"):
        raise ValueError(f"{like.system} has no ZeRO-{zero} beside a pipeline; ask for 1")
    if "zero" not in knobs and knobs["system"] == "torchtitan" and knobs.get("shards", 1) > 1:
        zero = 2 if K > 1 else 3  # torchtitan's default: it gathers weights again only where there is no pipeline
    return Plan(
        *(job, D, K, M, knobs.get("recompute", "none")),
        schedule=schedule,
        V=stages if form_of(schedule).takes_V and K > 1 else None,
        zero=zero if D > 1 else 0,
        tensor=tensor,
        sequence=knobs.get("sequence", knobs["system"] == "torchtitan") or tensor == 1,
        context=context,
        balance=_balance(knobs, job, K * stages),
    )


def turned(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """The same with one knob turned, on as many devices, and what that is: counts halved and doubled, any other value
    of the rest, stages cut by their costs."""
    tensor, sequence, context = plan.group
    mine: dict[str, Any] = {"D": plan.D, "K": plan.K, "M": plan.M, "recompute": plan.recompute, "zero": plan.zero}
    mine |= {"schedule": plan.recipe, "V": plan.V, "tensor": tensor, "sequence": sequence, "context": context}
    for words, change in _changes(plan, mine):
        # Other stages, or stages that cost otherwise, are cut anew.
        balance = None if change.keys() & {"K", "V", "tensor", "context", "balance"} else plan.balance
        knobs = mine | {"balance": balance} | change
        knobs["V"] = knobs["V"] if knobs["K"] > 1 and form_of(knobs["schedule"]).takes_V else None
        try:
            other = Plan(plan.job, **knobs)
        except ValueError:
            continue  # no such plan
        if other.knobs != plan.knobs or other.balance != plan.balance:
            yield words, other


def _changes(plan: Plan, mine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for M in (plan.M * 2, plan.M // 2):
        yield f"M={M}", {"M": M}
    for name in ("K", "tensor", "context"):
        # Devices are passed on to replicas, and back.
        if plan.D % 2 == 0:
            yield f"{name}={mine[name] * 2}, D={plan.D // 2}", {name: mine[name] * 2, "D": plan.D // 2}
        if mine[name] % 2 == 0:
            yield f"{name}={mine[name] // 2}, D={plan.D * 2}", {name: mine[name] // 2, "D": plan.D * 2}
    for zero in ZERO if plan.ranks > 1 else ():
        yield f"ZeRO-{zero}", {"zero": zero}
    for name in RECOMPUTES:
        if name != "selective" or any(layer.scores for layer in plan.job.model.layers):
            yield f"recompute {name}", {"recompute": name}
    if plan.K > 1:
        for name in SCHEDULES:
            several = form_of(name).takes_V
            for V in (2, 4, 8) if several else (stages_per_device(name, None),):
                yield name + f" V={V}" * several, {"schedule": name, "V": V}
        yield "stages cut by their costs", {"balance": None}


def _replicas(knobs: dict[str, Any], job: Job, each: int) -> int:
    told, devices = _told_replicas(knobs), job.machine.devices
    if told:
        return told
    if devices % each:
        raise ValueError(
            f"stages, tensor groups and cut sequences take {each} devices, which do not divide {devices} (--devices)"
        )
    return devices // each


def batch_of(like: Like, job: Job) -> int | None:
    """N, the samples of a mini-batch over all replicas, where the words tell; `job` has the devices and the model.

    Raises ValueError where devices do not come out even.
    """
    knobs = like.knobs
    if knobs.get("batch", 0) > 0:
        return int(knobs["batch"])
    if knobs.get("batch_tokens", 0) > 0:
        return max(1, int(knobs["batch_tokens"]) // job.model.tokens)
    D = _replicas(knobs, job, prod(knobs.get(name, 1) for name in ("K", "tensor", "context")))
    if "local_batch" in knobs:
        return int(knobs["local_batch"]) * D
    samples = _samples(knobs, job)
    return samples * int(knobs["M"]) * D if samples and "M" in knobs else None


def _samples(knobs: dict[str, Any], job: Job) -> int | None:
    """Of a micro-batch, where that is told."""
    if "tokens" in knobs:
        return max(1, int(knobs["tokens"]) // job.model.tokens)
    if "samples" not in knobs and "local_batch" in knobs:
        return 1 if knobs.get("K", 1) > 1 else int(knobs["local_batch"])
    return int(knobs["samples"]) if "samples" in knobs else None


def _micro_batches(knobs: dict[str, Any], job: Job, D: int) -> int:
    """As many as the mini-batch has of the size that is told."""
    samples = _samples(knobs, job)
    if samples is None:
        return int(knobs.get("M", 1))
    if job.batch % (D * samples):
        raise ValueError(
            f"{job.batch} samples are not cut evenly by {D} replicas with micro-batches of {samples}; no system does "
            "that"
        )
    return job.batch // (D * samples)


def _stages_a_device(knobs: dict[str, Any], layers: int, K: int) -> int:
    if "layout" in knobs:
        return _whole_stages(len(balance_of_layout(knobs["layout"])), K, "the layout has")
    if "blocks_per_stage" in knobs:
        return _whole_stages((layers - 2) // knobs["blocks_per_stage"], K, "so many blocks per stage make")
    if "layers_per_stage" in knobs:
        return _whole_stages(-(-layers // knobs["layers_per_stage"]), K, "so many layers per stage make")
    schedule = knobs.get("schedule")
    return int(knobs.get("V") or (stages_per_device(schedule, None) if schedule and K > 1 else 1))


def _whole_stages(stages: int, K: int, told: str) -> int:
    if not stages or stages % K:
        raise ValueError(
            f"{told} {stages} stages of this model, which {K} ranks do not share evenly; take another number, or give "
            "the model that has so many blocks (--model)"
        )
    return stages // K


def _balance(knobs: dict[str, Any], job: Job, stages: int) -> tuple[int, ...] | None:
    """Layers of each stage, with the embedding in the first and the head in the last; None where ours is as good."""
    layers = job.model.layers
    if stages == 1:
        return None
    if "layout" in knobs:
        return _with_ends(balance_of_layout(knobs["layout"]))
    if knobs.get("cut", "parameters" if knobs["system"] == "deepspeed" else "") == "parameters":
        return balance_by_cost([layer.parameters for layer in layers], stages)
    if knobs.get("cut") == "uniform" or knobs["system"] == "torchtitan":
        return balance_uniform(len(layers), stages)
    if knobs["system"] == "megatron":
        return _with_ends(_megatron_blocks(knobs, len(layers) - 2, stages))
    return None


def _megatron_blocks(knobs: dict[str, Any], blocks: int, stages: int) -> tuple[int, ...]:
    """Blocks of each stage: even, but for what is told of the first and the last."""
    first, last = ([int(knobs[name])] if name in knobs else [] for name in ("first_blocks", "last_blocks"))
    if first or last:
        if stages != knobs.get("K", 1):
            raise ValueError(
                "blocks of the first and last rank are not planned with several stages on each; write a "
                "--pipeline-model-parallel-layout"
            )
        inner, left = stages - len(first + last), blocks - sum(first + last)
        if inner < 1 or left % inner:
            raise ValueError(f"{left} blocks between the ends are not shared evenly by {inner} stages")
        return (*first, *[left // inner] * inner, *last)
    ends = bool(knobs.get("account_embedding")), bool(knobs.get("account_loss"))
    if (blocks + sum(ends)) % stages:
        raise ValueError(
            f"{blocks} blocks are not shared evenly by {stages} stages; Megatron-LM takes such a split only with a "
            "--pipeline-model-parallel-layout"
        )
    even = (blocks + sum(ends)) // stages
    return (even - ends[0], *(even,) * (stages - 2), even - ends[1])


def _with_ends(blocks: tuple[int, ...]) -> tuple[int, ...]:
    return (blocks[0] + 1, *blocks[1:-1], blocks[-1] + 1)


def _system(given: dict[str, Any], text: str) -> str:
    """The system that knows most of the words."""
    counts = {name: len({*told["words"], *told["refused"]} & given.keys()) for name, told in systems().items()}
    most = max(counts.values())
    found = [name for name, count in counts.items() if count == most]
    if most and len(found) > 1:
        both = join_words([systems()[name]["name"] for name in found], last=" and ")
        raise ValueError(f"{text!r} has words of {both}, and as many of each; give those of one")
    if most == 0:
        known = join_words([told["name"] for told in systems().values()], last=" and ")
        raise ValueError(
            f"{text!r} has no words by which a plan is told in {known}; write such as {SAMPLE!r}, or give the file "
            "that has them"
        )
    return found[0]


def _knobs(name: str, given: dict[str, Any]) -> Like:
    told = systems()[name]
    knobs: dict[str, Any] = {"system": name}
    sizes: dict[str, Any] = {}
    notes = []
    for word, what in told["refused"].items():
        value = given.get(word)
        if value is BARE or (_told(value) and str(value) not in ("0", "1")):
            shown = "" if value is BARE else f" {value}"
            raise ValueError(f"{word}{shown} asks for {what}, which is not planned here")
    for word, meaning in told["words"].items():
        if not _told(given.get(word)):
            continue
        for knob, value in _meant(word, meaning, given[word]).items():
            if knob == "note":
                notes.append(value)
            else:
                (sizes if knob.startswith("model.") else knobs)[knob.removeprefix("model.")] = value
    if knobs.get("batch", 0) > 0 and {"M", "samples"} <= knobs.keys():
        each = knobs["M"] * knobs["samples"]
        if knobs["batch"] % each:
            raise ValueError(
                f"a mini-batch of {knobs['batch']} is no multiple of {knobs['M']} micro-batches of {knobs['samples']}"
            )
        knobs.setdefault("replicas", knobs["batch"] // each)
    devices = _told_replicas(knobs)
    devices = devices and devices * prod(knobs.get(each, 1) for each in ("K", "tensor", "context"))
    context = sizes.get("context")
    if name == "nanotron" and isinstance(given.get("model.model_config"), dict):
        config = {"model_type": "llama"} | given["model.model_config"]
        opened = hugging_face.of_config(config, **({"context": context} if context else {}))
        return Like(told["name"], knobs, opened.model, (), context, devices, (*notes, *opened.notes))
    model, lacks = _model(name, sizes)
    return Like(told["name"], knobs, model, lacks, context, devices, tuple(notes))


def _told(value: Any) -> bool:
    """Whether a value says anything: "auto" leaves it to the system."""
    return value is not None and value != "auto"


def _told_replicas(knobs: dict[str, Any]) -> int | None:
    """None where they follow from how many devices there are."""
    if not {"replicas", "shards"} & knobs.keys() or knobs.get("shards", 1) < 1:
        return None
    return int(knobs.get("replicas", 1) * knobs.get("shards", 1))


def _meant(word: str, meaning: Any, value: Any) -> dict[str, Any]:
    """What a word with this value sets."""
    if isinstance(meaning, str):
        if meaning in TEXTS:
            return {meaning: str(value)}
        return {meaning: _count(word, value)}
    if "values" in meaning and value is not BARE:
        key = str(value).lower() if isinstance(value, bool) else str(value)
        for known, sets in meaning["values"].items():
            if known.lower() == key.lower():
                return dict(sets)
        raise ValueError(f"{word} is {value!r}; planned here are {join_words(list(meaning['values']), last=' and ')}")
    if "set" in meaning:
        return dict(meaning["set"]) if value is BARE or str(value).lower() != "false" else {}
    raise ValueError(f"{word} has no value; it may be {join_words(list(meaning['values']), last=' or ')}")


def _count(word: str, value: Any) -> int:
    if value is BARE:
        raise ValueError(f"{word} has no number after it")
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{word} is {value!r}; write the number itself, since variables are not looked up") from None


def _model(system: str, sizes: dict[str, Any]) -> tuple[Model | None, tuple[str, ...]]:
    """The model that Megatron-LM's words tell, if they tell all of it; and the words that are missing."""
    words = {
        "blocks": "--num-layers",
        "width": "--hidden-size",
        "heads": "--num-attention-heads",
        "context": "--seq-length",
        "vocabulary": "--vocab-size",
    }
    if system != "megatron" or not {"blocks", "width"} & sizes.keys():
        return None, ()
    if lacks := tuple(word for size, word in words.items() if size not in sizes):
        return None, lacks
    gated = sizes.get("gated", False)
    # Megatron-LM's own width where none is told, a gated one in multiples of 64.
    usual = 4 * sizes["width"] * 2 // 3 // 64 * 64 if gated else 4 * sizes["width"]
    return transformer(**({"hidden": usual, "gated": gated, "tied": True} | sizes)), ()
