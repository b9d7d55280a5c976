"""The measured timeline against the kernels that torch.profiler saw in the same step; and a picture of both."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function, supported_activities

import gpipe_edu as ge
from benchmarks.gpu.findings import Findings
from benchmarks.gpu.kernels import STREAM, apart, kernel_timeline, sample
from benchmarks.gpu.ops import LOSS, batch, gpu, layers, width_for
from benchmarks.gpu.sizes import Sizes
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.place import wait_for_gpus
from gpipe_edu.timeline import read_profiles

K, M = 4, 8
PICTURE, TRACE = "timeline.svg", "trace.json.gz"


def run(found: Findings, sizes: Sizes) -> None:
    width = width_for(sizes.durations[0], sizes.width)
    pipe = GPipe(layers(width, K), K, M, schedule="1f1b", checkpoint="never", devices=[gpu()])
    x, y = batch(width, M)
    for _ in range(3):
        pipe.step(x, y, LOSS)
    profiled(pipe, x, y)  # the first profile loads what it needs
    trace = profiled(pipe, x, y)
    ours = pipe.timeline.with_name(f"{K} streams of one GPU, by CUDA events")
    kernels = kernel_timeline(trace, K)
    found.file(PICTURE, ge.compare(*filter(None, (ours, kernels)), theme="light").to_svg().encode())
    found.file(TRACE, gzip.compress(json.dumps(sample(trace)).encode(), mtime=0))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, TRACE)
        file.write_bytes(gzip.compress(json.dumps(trace).encode()))
        read = {span.op for span in read_profiles([file]).spans}
    asked = {span.op for span in ours.spans}
    found.check("read_profiles on this trace", f"{len(read)} of {len(asked)} ops", read == asked)
    found.figure("step under the profiler", f"{ours.makespan * 1e3:.2f} ms, bubble {ours.bubble_fraction:.2f}")
    name = "starts and ends against kernels, of the step"
    if kernels is None:
        found.not_asked(name, "the profiler saw no kernel of a GPU")
    else:
        found.bar(name, 100 * apart(ours, kernels), 5, " %", timed=True)


def profiled(pipe: GPipe, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    """The trace of one step, before which each stage's stream shows its number."""
    kinds = {ProfilerActivity.CPU, ProfilerActivity.CUDA} & set(supported_activities())
    every = _ExperimentalConfig(profile_all_threads=True)  # else a pipe runs in this thread alone, to be seen
    with profile(activities=kinds, experimental_config=every) as found:
        for place, stage in zip(pipe._places, range(K), strict=True):
            place.begin()
            with torch.cuda.stream(place.compute), record_function(f"{STREAM}{stage}"):
                torch.ones(1, device=gpu())
        wait_for_gpus()
        pipe.step(x, y, LOSS)
        wait_for_gpus()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        found.export_chrome_trace(str(file))
        return dict(json.loads(file.read_text(encoding="utf-8")))
