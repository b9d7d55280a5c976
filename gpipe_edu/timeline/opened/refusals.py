"""What is said of a file that can't be opened: what it is, what it lacks, and the lines that would put it there."""

from __future__ import annotations

from typing import Final

from gpipe_edu.base.words import shown

PROFILE: Final = """
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:  # without a GPU: CPU
        schedule.step(x)"""

NAMES: Final = """
    with record_function(f"PP:{stage}F{m}"): ...  # around the forward of micro-batch m
    with record_function(f"PP:{stage}B{m}"): ...  # around its backward"""

ALL_THREADS: Final = """
    watching = torch.profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], experimental_config=watching) as found:
        pipe.step(x, y, loss_fn)"""

_CSV: Final = """
    gpipe_edu.one_f_one_b(K, micro_batches).to_csv("1f1b.csv")
    runtime = _PipelineScheduleRuntime([stage], micro_batches, loss_fn=loss_fn)
    runtime._load_csv("1f1b.csv", format="compute_only")"""

_LACKS: Final = {
    "no-ops": (
        "is a trace of {events} events, and none of them is named as an op of a pipeline, such as “PP:0F0” (stage 0, "
        "forward, micro-batch 0). PyTorch's Schedule1F1B names none: either name them,"
        + NAMES
        + "\nor let PyTorch's runtime, which names them, run the same order from its CSV:"
        + _CSV
    ),
    "one-by-one": (
        "is a profile of a GPipe whose ops, such as “{op}”, ran in one thread, one by one, as they do where a profiler "
        "watches that thread alone, or where layers compile: there is no bubble to measure. Profile a later step, and "
        "all threads:" + ALL_THREADS + "\nor ask the engine, which measures each step: `pipe.timeline`"
    ),
    "no-time": "has “{op}” without a time, or with one that no clock shows: export it anew",
    "beyond": (
        "has “{op}”, and what is opened here has at most {stages} stages and {micro_batches} micro-batches, counted "
        "from 0: correct the name"
    ),
    "overlap": (
        "has ops, such as “{op}”, whose marks lie in one another, so that what worked in which can't be told: name "
        "each op once, around its own work"
    ),
    "twice": (
        "has “{op}” twice, at the same time: it was written or merged from one trace twice. Give the files of the "
        "ranks, each as export_chrome_trace wrote it"
    ),
    "no-kernels": (
        "is a trace of a GPU with ops such as “{op}”, but without kernels that were launched within them: it shows "
        "when the host launched work, not when the GPU did it. Profile both:" + PROFILE
    ),
    "no-operations-in-pair": (
        "is a trace of ops that run as pairs, such as “{pair}”, but without the operations inside: nothing shows where "
        "the forward ends and the backward begins. Profile with them:" + PROFILE
    ),
    "two-ops-at-once": (
        "is a trace of a process with several workers: “{one}” and “{other}” ran at once, and which of them launched a "
        "kernel can't be told. Trace one process for each rank, or ask the engine: `pipe.timeline` has its own times"
    ),
    "kernels-mixed": (
        "is a trace merged of {processes} processes of GPUs, whose kernels can't be told apart any more: they are "
        "numbered alike. Give the files of the ranks instead, as export_chrome_trace wrote them"
    ),
}


class NoRunError(ValueError):
    """A file that holds no run of a pipeline."""


class MissingRankError(ValueError):
    """Files that lack a rank of their pipeline."""


def what_lacks(name: str, lack: str, **words: object) -> str:
    """The refusal of the file `name`."""
    quoted = {key: shown(word) if isinstance(word, str) else word for key, word in words.items()}
    return f"{name} {_LACKS[lack].format_map(_Keeping(quoted))}"


class _Keeping(dict[str, object]):
    """Words for a text; braces that are code stay."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"
