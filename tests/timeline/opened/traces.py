"""Traces as torch.profiler writes them, made of a step whose times are known, with all that profiles have besides."""

import gzip
import json
from random import Random

BASE = 1_700_000_000_000_000_000
"""Nanoseconds."""


class Trace:
    """The trace of one rank. Times are in microseconds from the start of the run."""

    def __init__(self, rank, world, groups, backend="gloo", pid=None):
        self.rank, self.pid, self.events, self.correlation = rank, 100 + rank if pid is None else pid, [], 0
        self.about = {
            "schemaVersion": 1,
            "deviceProperties": [],
            "distributedInfo": {
                "backend": backend,
                "rank": rank,
                "world_size": world,
                "pg_count": 1 + len(groups),
                "pg_config": [
                    {"pg_name": "0", "pg_desc": "default_pg", "pg_size": world, "ranks": list(range(world))},
                    *(
                        {"pg_name": str(number + 1), "pg_desc": name, "pg_size": len(ranks), "ranks": list(ranks)}
                        for number, (name, ranks) in enumerate(groups)
                    ),
                ],
            },
            "baseTimeNanoseconds": BASE,
        }
        self.events.append({"ph": "M", "name": "process_name", "pid": self.pid, "tid": 0, "args": {"name": "python"}})

    def add(self, cat, name, ts, dur, tid=1, pid=None, **args):
        """One event; times as they are written, with three digits behind the point."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": self.pid if pid is None else pid, "tid": tid}
        event |= {"ts": round(ts, 3), "dur": round(round(ts + dur, 3) - round(ts, 3), 3)}
        self.events.append(event | ({"args": args} if args else {}))

    def launch(self, at, tid, name, start, end, stream=7, launcher="cudaLaunchKernel"):
        """A kernel, and the call that launches it."""
        self.correlation += 1
        self.add("cuda_runtime", launcher, at, 2, tid, correlation=self.correlation)
        self.add("kernel", name, start, end - start, stream, 0, correlation=self.correlation, stream=stream)

    def save(self, path, shift=0.0, indent=None):
        """Write the file. shift: how much later, in microseconds, its own base is; times are counted from there."""
        events = [event | ({"ts": event["ts"] - shift} if "ts" in event else {}) for event in self.events]
        about = self.about | {"baseTimeNanoseconds": BASE + int(shift * 1000)}
        text = json.dumps({**about, "traceEvents": events, "traceName": path.name}, indent=indent)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path


def on_cpu(trace, rows, name=lambda op: f"PP:{op.stage}{op.kind}{op.micro_batch}", transfers=True, quiet=0.0):
    """The spans of a rank, in microseconds: each mark begins as soon as the rank is free and holds the wait.

    quiet: the share of an op at its start, and at its end, in which it works without an operation."""
    free = rows[0].start
    for _, op, start, end in rows:
        trace.add("user_annotation", name(op), free, end - free)
        if transfers:
            trace.add("cpu_op", "c10d::recv_", free, min(1, end - free))
            trace.add("user_annotation", "gloo:recv", free, start - free)
            trace.add("cpu_op", "record_param_comms", free, min(1, end - free))
            trace.add("cpu_op", "c10d::send", end - min(1, end - start), 900)  # waits for who receives
        trace.add("cpu_op", "aten::randperm", free, end - free, tid=2)  # of the loader's thread
        backward = op.kind in "BIW"
        outer = "autograd::engine::evaluate_function: AddmmBackward0" if backward else "aten::linear"
        first, length = start + quiet * (end - start), (1 - 2 * quiet) * (end - start)
        trace.add("cpu_op", outer, first, length * 0.6)
        trace.add("cpu_op", "aten::mm", first, length * 0.5)
        trace.add("cpu_op", "aten::add_", first + length * 0.7, length * 0.3)
        free = end


def on_gpu(trace, rows, stages):
    """The host runs ahead of the GPU; autograd launches most of a backward on a thread of its own."""
    host = rows[0].start
    for _, op, start, end in rows:
        mark = f"PP:{op.stage}{op.kind}{op.micro_batch}"
        if op.kind == "F" and op.stage > 0:
            message(trace, f"PP:{op.stage}RECV_F{op.micro_batch}", host, start - 30, start)
            host += 5
        if op.kind in "BI" and op.stage < stages - 1:
            message(trace, f"PP:{op.stage}RECV_B{op.micro_batch}", host, start - 30, start)
            host += 5
        trace.add("user_annotation", mark, host, 40)
        middle = (start + end) / 2
        first, last = (1, 1) if op.kind == "F" else (1, 2)
        trace.launch(host + 1, first, "ampere_sgemm", start, middle)
        trace.launch(host + 38, last, "void at::native::elementwise_kernel<...>", middle, end)
        trace.launch(host + 39, 1, "ncclDevKernel_AllReduce_Sum", end, end + 500, stream=20)  # is no work of this op
        trace.add("gpu_user_annotation", mark, start, 3, 7, 0)
        host += 50
        goal = {"F": op.stage + 1, "B": op.stage - 1, "I": op.stage - 1}.get(op.kind, -1)
        if 0 <= goal < stages:
            message(trace, f"PP:{op.stage}SEND_{'F' if op.kind == 'F' else 'B'}{op.micro_batch}", host, end, end + 20)
            host += 5


def message(trace, mark, host, start, end):
    """One end of a message."""
    trace.add("user_annotation", mark, host, 4)
    trace.launch(host + 1, 1, "ncclDevKernel_SendRecv", start, end, stream=20, launcher="cudaLaunchKernelExC")


def later(spans, by):
    """Spans in microseconds, later by so much."""
    return [span._replace(start=span.start * 1e6 + by, end=span.end * 1e6 + by) for span in spans]


def steps_of(timeline, device, count=1, *, leave_out_first=0, leave_out_last=0):
    """The spans of a device in so many steps, one behind the other, cut off at both ends as a profile is."""
    spans = [
        span for step in range(count) for span in later(timeline.row(device), step * 1e6 * (timeline.makespan + 1))
    ]
    return spans[leave_out_first : len(spans) - leave_out_last]


def save_all(folder, timeline, *, gpu=False, steps=1, seed=0, replicas=1, cut=(0, 0), ending=".json.gz", **options):
    """The files of all ranks, under names in no order; of replicas, replica r has the ranks r, r + replicas, ..."""
    draw = Random(seed)
    K = timeline.devices
    stages = 1 + max(span.op.stage for span in timeline.spans)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{draw.choice('xyz')}{number}_trace" for number in draw.sample(range(100), K * replicas)]
    files = []
    for replica in range(replicas):
        ranks = [replica + replicas * k for k in range(K)]
        for device, rank in enumerate(ranks):
            group = [("mesh_dp", range(rank - replica, rank - replica + replicas)), ("mesh_pp", ranks)]
            trace = Trace(rank, K * replicas, group, "nccl" if gpu else "gloo")
            rows = steps_of(timeline, device, steps, leave_out_first=cut[0], leave_out_last=cut[1])
            if gpu:
                on_gpu(trace, rows, stages)
            else:
                on_cpu(trace, rows, **options)
            draw.shuffle(trace.events)
            files.append(trace.save(folder / (names.pop() + ending), shift=draw.choice([0, 1000, 2500])))
    draw.shuffle(files)
    return files
