"""A split that runs elsewhere, in the words of the system that runs it: read, and planned beside the best.

A command's words (Megatron-LM, torchtitan), or a file of them (a shell script, JSON, TOML, YAML). `systems.toml` says
what the words mean. What a system would do by itself, such as how many blocks a stage has, is done here likewise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final, NamedTuple

from gpipe_edu.base.bounded import MOST_DIGITS, check_brackets, in_one_sentence
from gpipe_edu.base.words import join_words, plural, shown
from gpipe_edu.schedule.recipes import MOST as MOST_FORWARDS
from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.split import balance_by_cost, balance_uniform
from gpipe_edu.split.megatron_layout import balance_of_layout

from . import hugging_face
from .hugging_face import MOST_BLOCKS
from .hugging_face_experts import MOST_EXPERTS
from .job import Job
from .like_experts import SIZES, give_experts, read_pattern
from .model import Model, transformer, with_ends, without_ends
from .plan import RECOMPUTES, SCHEDULES, ZERO, Plan, stages_per_device
from .stages import HIDES
from .systems import systems
from .told_words import BARE, words_of

MOST_COUNT: Final = 10**9
"""Of samples, tokens or numbers."""

_MOST: Final = {
    **dict.fromkeys(("K", "tensor", "context", "experts", "expert_tensor"), 4096),
    **dict.fromkeys(("M", "replicas", "shards", "samples", "model.heads"), 65_536),
    "V": 1024,
    "batch": 10**7,
    "model.blocks": MOST_BLOCKS,
    **dict.fromkeys(("model.width", "model.expert_hidden", "model.shared_hidden"), 10**7),
    "model.experts": MOST_EXPERTS,
}
"""What each of these may be at most: what is larger is a slip, and takes hours to plan."""

_MAY_BE_NONE: Final = (
    *("shards", "batch", "batch_tokens", "local_batch", "zero", "recompute_layers"),
    *("first_less", "last_less", "first_blocks", "last_blocks", "model.experts"),
)
"""Knobs that may be 0 or, where a system then finds the number itself, -1."""

_SETTINGS: Final = {
    "--deepspeed": "DeepSpeed's settings",
    "--deepspeed_config": "DeepSpeed's settings",
    "--deepspeed-config": "DeepSpeed's settings",
    "--job.config_file": "torchtitan's settings",
    "--job.config-file": "torchtitan's settings",
    "--config-file": "nanotron's settings",
}
"""Words that name another file in which the split is told."""

SAMPLE: Final = "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 256"


class Like(NamedTuple):
    """What was read: knobs by name, and, where the words say, the model, its tokens per sample and how many devices.

    lacks: the words that are missing for the model, if some of it is given. sizes: what is given of it.
    """

    system: str
    knobs: dict[str, Any]
    model: Model | None
    lacks: tuple[str, ...]
    context: int | None
    devices: int | None
    notes: tuple[str, ...]
    sizes: dict[str, Any] = {}  # noqa: RUF012 (nothing changes it)


def read(text: str) -> Like:
    """text: words of a command, or a file of them.

    Raises ValueError for words of no system that is known here, or of several; for invalid values; for what cannot be
    planned, by name. OSError for a file that cannot be read.
    """
    with in_one_sentence(shown(text, 100)):
        given = words_of(text)
        _expect_settings(given)
        return _knobs(_system(given, text), given)


def plan_like(like: Like, job: Job) -> Plan:
    """The plan of what was read, for this job: D and M follow as they do in its system.

    Raises ValueError where they do not come out even, or for an impossible plan.
    """
    knobs = like.knobs
    K, tensor, context = (knobs.get(name, 1) for name in ("K", "tensor", "context"))
    D = _replicas(knobs, job, K * tensor * context)
    M = _micro_batches(knobs, job, D)
    stages = _stages_a_device(knobs, len(job.model.layers), K)
    if K * M * stages > MOST_FORWARDS:
        raise ValueError(
            f"{M:,} micro-batches through {K * stages:,} stages are more than the {MOST_FORWARDS:,} forwards of a plan"
        )
    schedule = knobs.get("schedule") or ("interleaved" if stages > 1 else "1f1b")
    if K > 1 and stages_per_device(schedule, stages) != stages:
        raise ValueError(f"{schedule} has {stages_per_device(schedule, None)} stages on each device, not {stages}")
    balance = _balance(knobs, job, K * stages)
    zero = knobs.get("sharded", 3) if knobs.get("fsdp") else knobs.get("zero", 0)
    if K > 1 and zero > 1 and knobs["system"] in ("megatron", "deepspeed"):
        raise ValueError(f"{like.system} has no ZeRO-{zero} beside a pipeline; ask for 1")
    if knobs["system"] == "torchtitan" and (zero or knobs.get("shards", 1) > 1):
        # Beside a pipeline it reduces a stage once, whatever is said of its weights; without one it gathers them again.
        zero = (2 if schedule == "breadth_first" else 1) if K > 1 else zero or 3
    mine = _experts(knobs, tensor) if job.model.routed else {"experts": knobs.get("experts", 1)}
    each, there = mine["experts"] * mine.get("expert_tensor", 1), D * tensor * context
    if there % each:
        raise ValueError(
            f"experts take {plural(each, 'device')} of a stage; with {plural(K, 'stage')} a stage has {there} of "
            f"{job.machine.devices} devices (--devices), which is no multiple"
        )
    return Plan(
        *(job, D, K, M, _recompute(knobs, balance or (len(job.model.layers),))),
        schedule=schedule,
        V=stages if form_of(schedule).takes_V and K > 1 else None,
        zero=zero if D > 1 else 0,
        tensor=tensor,
        sequence=knobs.get("sequence", knobs["system"] == "torchtitan") or tensor == 1,
        context=context,
        balance=balance,
        **mine,
    )


def _experts(knobs: dict[str, Any], tensor: int) -> dict[str, Any]:
    """Megatron-LM's experts are in tensor groups unless it is told otherwise."""
    alone = tensor if knobs["system"] == "megatron" else 1
    found = {"experts": knobs.get("experts", 1), "expert_tensor": knobs.get("expert_tensor", alone)}
    return found | {"hide": knobs.get("hide", "none"), "once": knobs.get("once", False)}


def turned(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """The plan with one knob turned, on as many devices, and the change in words: counts halved and doubled, any other
    value of the rest, stages cut by their costs."""
    tensor, sequence, context = plan.group
    mine: dict[str, Any] = {"D": plan.D, "K": plan.K, "M": plan.M, "recompute": plan.recompute, "zero": plan.zero}
    mine |= {"schedule": plan.recipe, "V": plan.V, "tensor": tensor, "sequence": sequence, "context": context}
    experts, expert_tensor, hide, once = plan.experts
    mine |= {"experts": experts, "expert_tensor": expert_tensor, "hide": hide, "once": once}
    for words, change in _changes(plan, mine):
        # Other stages, or stages with other costs, are cut anew.
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
    if plan.job.model.routed:
        yield from ((f"experts={count}", {"experts": count}) for count in (mine["experts"] * 2, mine["experts"] // 2))
        yield "expert_tensor=1", {"expert_tensor": 1, "experts": mine["experts"] * mine["expert_tensor"]}
        yield from ((f"hide={hide}", {"hide": hide}) for hide in HIDES)
    for zero in ZERO if plan.ranks > 1 else ():
        yield f"ZeRO-{zero}", {"zero": zero}
    for name in RECOMPUTES:
        if name != "selective" or any(layer.scores or layer.routed for layer in plan.job.model.layers):
            yield f"recompute {name}", {"recompute": name}
    if plan.K > 1:
        for name in SCHEDULES:
            several = form_of(name).takes_V
            for V in (2, 4, 8) if several else (stages_per_device(name, None),):
                if name == plan.recipe and (V == plan.V or not several):
                    continue  # the plan's own
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
    """N, the samples of a mini-batch over all replicas, where the words say; `job` has the devices and the model.

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
    """Samples of a micro-batch, where the words say."""
    if "tokens" in knobs:
        return max(1, int(knobs["tokens"]) // job.model.tokens)
    if "samples" not in knobs and "local_batch" in knobs:
        return 1 if knobs.get("K", 1) > 1 else int(knobs["local_batch"])
    return int(knobs["samples"]) if "samples" in knobs else None


def _micro_batches(knobs: dict[str, Any], job: Job, D: int) -> int:
    """As many as the mini-batch has of the given size."""
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
        blocks = knobs["blocks_per_stage"]
        return _whole_stages((layers - 2) // blocks, K, f"--num-layers-per-virtual-pipeline-stage {blocks} makes")
    if "parts" in knobs:
        return _whole_stages(len(knobs["parts"]), K, "the list of modules has")
    if "layers_per_stage" in knobs:
        counted, each = layers - 2 + sum(_less(knobs)), knobs["layers_per_stage"]
        return _whole_stages(-(-counted // each), K, f"pipeline_parallel_layers_per_stage {each} makes")
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
        return with_ends(balance_of_layout(knobs["layout"]))
    if knobs.get("cut", "parameters" if knobs["system"] == "deepspeed" else "") == "parameters":
        return balance_by_cost([layer.parameters for layer in layers], stages)
    if "parts" in knobs:
        return with_ends(_blocks_of_parts(knobs["parts"]))
    if knobs["system"] == "torchtitan":
        return with_ends(_titan_blocks(len(layers) - 2, stages, *_less(knobs)))
    if knobs.get("cut") == "uniform":
        return balance_uniform(len(layers), stages)
    if knobs["system"] == "megatron":
        return with_ends(_megatron_blocks(knobs, len(layers) - 2, stages))
    return None


def _megatron_blocks(knobs: dict[str, Any], blocks: int, stages: int) -> tuple[int, ...]:
    """Blocks of each stage: even, except for what is given for the first and last rank."""
    first, last = ([int(knobs[name])] if name in knobs else [] for name in ("first_blocks", "last_blocks"))
    if first or last:
        return _uneven_blocks(knobs, first, last, blocks, stages)
    ends = bool(knobs.get("account_embedding")), bool(knobs.get("account_loss"))
    if (blocks + sum(ends)) % stages:
        raise ValueError(
            f"{blocks} blocks are not shared evenly by {stages} stages; Megatron-LM takes such a split only with a "
            "--pipeline-model-parallel-layout"
        )
    even = (blocks + sum(ends)) // stages
    return (even - ends[0], *(even,) * (stages - 2), even - ends[1])


def _uneven_blocks(
    knobs: dict[str, Any], first: list[int], last: list[int], blocks: int, stages: int
) -> tuple[int, ...]:
    """The same where the blocks of a rank are given, which its stages share evenly."""
    K = int(knobs.get("K", 1))
    V = stages // K
    if {"account_embedding", "account_loss"} & knobs.keys():
        raise ValueError(
            "Megatron-LM takes blocks of the first and last rank without --account-for-embedding-in-pipeline-split and "
            "--account-for-loss-in-pipeline-split; leave out one or the other"
        )
    if "blocks_per_stage" in knobs:
        raise ValueError(
            "with blocks of the first and last rank Megatron-LM takes --num-virtual-stages-per-pipeline-rank, and no "
            "--num-layers-per-virtual-pipeline-stage"
        )
    inner, left = K - len(first + last), blocks - sum(first + last)
    if left < 0 or (left % inner if inner else left):
        raise ValueError(
            f"of {blocks} blocks those of the first and last rank leave {left} to {plural(inner, 'rank')} between "
            "them, which is no even share"
        )
    ranks = (*first, *[left // inner if inner else 0] * inner, *last)
    if odd := next((count for count in ranks if count % V), None):
        raise ValueError(f"{odd} blocks of a rank are not shared evenly by its {V} stages")
    return tuple(count // V for count in ranks) * V


def _less(knobs: dict[str, Any]) -> tuple[int, int]:
    """How many blocks the embedding counts as in torchtitan, and the head."""
    return int(knobs.get("first_less", 1)), int(knobs.get("last_less", 1))


def _titan_blocks(blocks: int, stages: int, first: int, last: int) -> tuple[int, ...]:
    """Blocks of each stage: even, the first ones with one more, with both ends counted as so many blocks."""
    try:
        counted = balance_uniform(blocks + first + last, stages)
    except ValueError:
        counted = (0,)
    if max(first, last) > min(counted):
        raise ValueError(
            f"the first stage has {first} blocks less and the last one {last}; with {stages} stages of {blocks} blocks "
            f"torchtitan takes {min(counted)} at most"
        )
    return (counted[0] - first, *counted[1:-1], counted[-1] - last)


def _blocks_of_parts(parts: tuple[tuple[str, ...], ...]) -> tuple[int, ...]:
    """Blocks of each stage, from the names of its modules."""
    found = [re.findall(r"\blayers\.(\d+)(?:\s|$)", "\n".join(part)) for part in parts]
    if [int(block) for part in found for block in part] != list(range(sum(map(len, found)))):
        raise ValueError("module_fqns_per_model_part names blocks in another order than layers.0, layers.1, ...")
    ends = (0, ("tok_embeddings", "embed_tokens")), (len(parts) - 1, ("output", "lm_head"))
    for place, names in ends:
        if not any(name.rpartition(".")[2] in names for name in parts[place]):
            raise ValueError(
                f"of module_fqns_per_model_part the {'last' if place else 'first'} part has no {' or '.join(names)}, "
                "and only such plans are made here"
            )
    return tuple(map(len, found))


def _recompute(knobs: dict[str, Any], balance: tuple[int, ...]) -> str:
    """balance: layers of each stage. Blocks are recomputed in units of so many, or only so many of each stage."""
    told, count = knobs.get("recompute", "none"), knobs.get("recompute_layers")
    if told != "full" or count is None:
        return str(told)
    if knobs.get("recompute_method") == "block":
        return "full" if count else "none"
    return "stage" if count >= max(without_ends(balance)) > 1 else "full"


def _note_on_recompute(knobs: dict[str, Any]) -> str:
    count = knobs.get("recompute_layers")
    if knobs.get("recompute") != "full" or not count:
        return ""
    if knobs.get("recompute_method") == "block":
        return f"Of a stage with more than {plural(count, 'block')} all are planned as recomputed, and not {count}."
    if count == 1:
        return ""
    return f"Blocks recomputed {count} at a time are planned as recomputed one by one, where a stage has more."


def _expect_settings(given: dict[str, Any]) -> None:
    """Raises ValueError for words that leave the split to another file, and say nothing of it themselves."""
    others = {word for told in systems().values() for word in told["words"] if not word.startswith("-")}
    for word, name in _SETTINGS.items():
        file = given.get(word)
        if isinstance(file, str) and not others & given.keys() and not any(map(_is_megatrons, given)):
            raise ValueError(f"{word} leaves the split to {name} in {shown(file, 80)}: give that file to --like")


def _is_megatrons(word: str) -> bool:
    return "model-parallel-size" in word or word == "--micro-batch-size"


def _system(given: dict[str, Any], text: str) -> str:
    """The system that knows most of the words."""
    counts = {name: len({*told["words"], *told["refused"]} & given.keys()) for name, told in systems().items()}
    most = max(counts.values())
    found = [name for name, count in counts.items() if count == most]
    if most and len(found) > 1:
        both = join_words([systems()[name]["name"] for name in found], last=" and ")
        raise ValueError(f"{shown(text, 100)!r} has words of {both}, and as many of each; give those of one")
    text = shown(text, 100)
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
            more = "" if value is BARE else f" {shown(str(value))}"
            raise ValueError(f"{word}{more} asks for {what}, which --like does not read")
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
    notes += filter(None, (_note_on_recompute(knobs), _note_on_resharding(knobs), _note_on_unread(told, given)))
    devices = _told_replicas(knobs)
    devices = devices and devices * prod(knobs.get(each, 1) for each in ("K", "tensor", "context"))
    context = sizes.get("context")
    if name == "nanotron" and isinstance(given.get("model.model_config"), dict):
        config = {"model_type": "llama"} | given["model.model_config"]
        opened = hugging_face.of_config(config, **({"context": context} if context else {}))
        return Like(told["name"], knobs, opened.model, (), context, devices, (*notes, *opened.notes))
    model, lacks = _model(name, sizes)
    return Like(told["name"], knobs, model, lacks, context, devices, tuple(notes), sizes)


def completed(like: Like, asked: dict[str, int]) -> Like:
    """The same with sizes of the model that the words leave out, such as the vocabulary that a tokenizer's file has.

    asked: by the names that `transformer` has for them.
    """
    system = like.knobs["system"]
    model, lacks = _model(system, asked | like.sizes)
    return like._replace(model=model, lacks=lacks, context=like.context or asked.get("context"))


def _note_on_resharding(knobs: dict[str, Any]) -> str:
    """What is said where PyTorch's engine splits backwards, and weights go after each forward."""
    split = knobs.get("K", 1) > 1 and knobs.get("schedule") in ("interleaved_zero_bubble", "zero_bubble_v")
    if knobs["system"] != "torchtitan" or not split or knobs.get("zero") != 3 or knobs.get("shards") == 1:
        return ""
    return "With fsdp_reshard_after_forward always, PyTorch 2.13 loses gradients in this schedule: say never."


def _note_on_unread(told: dict[str, Any], given: dict[str, Any]) -> str:
    """What is said about words that belong to a split but that no plan knows."""
    known = {*told["words"], *told["refused"]}
    unread = [
        word
        for word, value in given.items()
        if word not in known
        and re.match(told["heeds"], word)
        and not isinstance(value, dict)
        and str(value).lower() not in ("none", "false", "", "0", "auto")
    ]
    if not unread:
        return ""
    return f"Nothing here knows {join_words(unread, last=' and ')}: what is planned may differ by that."


def _told(value: Any) -> bool:
    """Whether a value says anything: "auto" leaves it to the system."""
    return value is not None and value != "auto"


def _told_replicas(knobs: dict[str, Any]) -> int | None:
    """The replicas given; None where they follow from how many devices there are."""
    if not {"replicas", "shards"} & knobs.keys() or knobs.get("shards", 1) < 1:
        return None
    return int(knobs.get("replicas", 1) * knobs.get("shards", 1))


def _meant(word: str, meaning: Any, value: Any) -> dict[str, Any]:
    """What a word with this value sets."""
    if isinstance(meaning, str):
        return {meaning: _READ[meaning](word, value) if meaning in _READ else _count(word, value, meaning)}
    if "values" in meaning and value is not BARE:
        key = str(value).lower() if isinstance(value, bool) else str(value)
        for one, sets in meaning["values"].items():
            if one.lower() == key.lower():
                return dict(sets)
        known = join_words(list(meaning["values"]), last=" and ")
        raise ValueError(f"{word} is {shown(str(value))!r}; planned here are {known}")
    if "set" in meaning:
        return dict(meaning["set"]) if value is BARE or str(value).lower() != "false" else {}
    raise ValueError(f"{word} has no value; it may be {join_words(list(meaning['values']), last=' or ')}")


def _count(word: str, value: Any, knob: str) -> int:
    if value is BARE:
        raise ValueError(f"{word} has no number after it")
    told, most = str(value), _MOST.get(knob, MOST_COUNT)
    try:
        count = int(told[:MOST_DIGITS])
    except ValueError:
        why = "nothing in the text gives this one value" if "$" in told else "that is none"
        raise ValueError(f"{word} is {shown(told)!r}; write the number itself: {why}") from None
    if len(told) > MOST_DIGITS or count > most:
        raise ValueError(f"{word} is {shown(told)}; planned is at most {most:,}")
    if count < 1 and knob not in _MAY_BE_NONE:
        raise ValueError(f"{word} is {count}; it must be at least 1")
    return count


def _parts(word: str, value: Any) -> tuple[tuple[str, ...], ...]:
    """Names of modules, a list for each stage; in a command they are written as a Python list."""
    try:
        if isinstance(value, str):
            check_brackets(value, word)
        parts = ast.literal_eval(value) if isinstance(value, str) else value
        found = tuple(tuple(part) for part in parts if not isinstance(part, str))
    except (ValueError, SyntaxError, TypeError, MemoryError):
        found = ()
    if len(found) < 2 or not all(isinstance(name, str) for part in found for name in part):
        told = "nothing" if value is BARE else shown(repr(value))
        raise ValueError(f"{word} is {told}; it must be a list for each stage, with the names of its modules")
    return found


def _text(word: str, value: Any) -> str:
    return str(value)


_READ: Final[dict[str, Callable[[str, Any], Any]]] = {"layout": _text, "parts": _parts, "model.pattern": read_pattern}
"""How knobs that are not numbers are read."""


LACKING: Final = {
    "--num-layers": "--layers",
    "--hidden-size": "--width",
    "--num-attention-heads": "",
    "--seq-length": "--context",
    "--vocab-size": "--vocabulary",
}
"""Words that a model needs, and the option of ours that gives the same, if there is one."""


def _model(system: str, sizes: dict[str, Any]) -> tuple[Model | None, tuple[str, ...]]:
    """The model that Megatron-LM's words describe, if they describe all of it, and the words that are missing."""
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
    # Megatron-LM's default hidden width; for a gated one, a multiple of 64.
    usual = 4 * sizes["width"] * 2 // 3 // 64 * 64 if gated else 4 * sizes["width"]
    told = {"hidden": usual, "gated": gated, "tied": True} | sizes
    dense = transformer(**{name: value for name, value in told.items() if name not in SIZES})
    return (give_experts(dense, told) if told.get("experts", 0) > 1 else dense), ()
