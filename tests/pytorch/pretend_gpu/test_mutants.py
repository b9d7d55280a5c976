"""The kill table of the stream code: without each of these waits, marks and moves, a test here fails.

A mutant is one change of a source text, in an engine that is imported anew in the forked process. Named with it is the
test that sees it, by a race, a wrong number, an error or a hang.
"""

import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.processes import PATIENCE

from . import cuda

pytestmark = pytest.mark.slow

HANGS = 3
"""Seconds after which one is believed to hang, or to wait for what never comes; else its test takes a tenth of one."""


class Mutant(NamedTuple):
    file: str
    text: str
    instead: str
    test: str
    arguments: Mapping[str, object] = MappingProxyType({})
    hangs: bool = False


ONE, THREE, BEHIND = ({"devices": devices, "way": "step"} for devices in ("one GPU", "three GPUs", "CPU behind"))
ON_THREE = {"devices": "three GPUs"}
TWO_STREAMS = {**ON_THREE, "mode": "always"}
NORMS = {"devices": "one GPU", "sides": True}
EARLY, LATE = ({"schedule": "gpipe", "way": way} for way in ("step", "transparent"))

ORDER = "test_order.test_gradients_are_those_of_one_device"
ANYWHERE = "test_order.test_a_mini_batch_may_be_anywhere"
PARTS = "test_order.test_parts_of_a_mini_batch_may_be_in_different_places"
SIDE = "test_streams.test_all_in_side_streams"
OTHER = "test_streams.test_forward_and_backward_in_different_streams"
DROPPED = "test_streams.test_gradients_may_be_dropped_between_forward_and_backward"
NORM = "test_streams.test_deferred_batch_norm_and_recompute"
MEMORY = "test_memory.test_out_of_memory_and_again"
DENSE = "test_order.test_boundary_values_need_not_be_dense"
TIMELINE = "test_timeline.test_spans_of_all_gpus_count_from_one_moment"

MUTANTS = {
    "a value leaves without an event": Mutant(
        "place",
        "._replace(ready=[torch.cuda.current_stream(self.device).record_event()])",
        "",
        ORDER,
        ONE,
    ),
    "a value of the user comes without an event": Mutant(
        "place",
        "._replace(ready=[stream.record_event() for stream in streams])",
        "",
        ANYWHERE,
        ON_THREE,
    ),
    "of the user's GPUs only the first is waited for": Mutant(
        "place",
        "stream.record_event() for stream in streams]",
        "stream.record_event() for stream in streams[:1]]",
        PARTS,
        {"devices": "three GPUs", "places": ("gpu:0", "gpu:2")},
    ),
    "a CPU stage does not wait for the GPU": Mutant(
        "place",
        "            event.synchronize()\n        arrived",
        "            pass\n        arrived",
        ORDER,
        BEHIND,
    ),
    "no copy blocks": Mutant(
        "place",
        "non_blocking=between_gpus",
        "non_blocking=True",
        ORDER,
        BEHIND,
    ),
    "compute does not wait for the sender": Mutant(
        "place",
        "self.compute.wait_event(event)",
        "pass",
        ORDER,
        ONE,
    ),
    "a copy does not wait for the sender": Mutant(
        "place",
        "                stream.wait_event(event)",
        "                pass",
        ORDER,
        THREE,
    ),
    "compute does not wait for the copy": Mutant(
        "place",
        "self.compute.wait_stream(streams[-1])",
        "pass",
        ORDER,
        THREE,
    ),
    "a value that came is not recorded": Mutant(
        "place",
        "sent.record_stream(self.compute)",
        "pass",
        ORDER,
        ONE,
    ),
    "a value that is copied is not recorded": Mutant(
        "place",
        "sent.record_stream(streams[0])",
        "pass",
        ORDER,
        THREE,
    ),
    "a copy is not recorded": Mutant(
        "place",
        "here.record_stream(self.compute)",
        "pass",
        ORDER,
        THREE,
    ),
    "copies run in the default stream of the sender": Mutant(
        "place",
        "(source, self.device) if source.type == GPU else (self.device,)",
        "(self.device,)",
        DENSE,
        {"peers": False},
    ),
    "a run does not wait for the user": Mutant(
        "place",
        "self.compute.wait_stream(torch.cuda.current_stream(self.device))",
        "pass",
        SIDE,
        THREE,
    ),
    "the user does not wait for a run": Mutant(
        "place",
        "torch.cuda.current_stream(self.device).wait_stream(self.compute)",
        "pass",
        ORDER,
        THREE,
    ),
    "ops run in the default stream": Mutant(
        "place",
        "return torch.cuda.stream(self.compute)",
        "return nullcontext()",
        ORDER,
        THREE,
    ),
    "results are not recorded": Mutant(
        "place",
        "tensor.record_stream(torch.cuda.current_stream(tensor.device))",
        "pass",
        OTHER,
        TWO_STREAMS,
    ),
    "clocks start when their queue gets there": Mutant(
        "place",
        "return _record_event(self._idle)",
        "return self.now()",
        TIMELINE,
        {"schedule": "gpipe"},
    ),
    "the start of a time is not waited for": Mutant(
        "place",
        "for event in (start, moment):",
        "for event in (moment,):",
        TIMELINE,
        {"schedule": "gpipe"},
    ),
    "streams are copied with their place": Mutant(
        "place",
        "def __reduce__(self)",
        "def reduced(self)",
        "test_copies.test_a_deep_copy_trains_like_the_first",
        {"devices": "one GPU"},
    ),
    "backward runs in the streams of its thread": Mutant(
        "mini_batch",
        "in_streams(self._streams)",
        "in_streams([])",
        OTHER,
        TWO_STREAMS,
    ),
    "a backward waits for workers": Mutant(
        "mini_batch",
        "if thread_is_watched() or (self.on_cuda and in_backward()):",
        "if thread_is_watched():",
        DENSE,
        {"peers": True},
        hangs=True,
    ),
    "a backward does not wait for the user": Mutant(
        "mini_batch",
        "            self._begin()\n            self.go",
        "            self.go",
        DROPPED,
        ON_THREE,
    ),
    "nor does it for the running statistics": Mutant(
        "mini_batch",
        "            self._begin()\n            self.go",
        "            self.go",
        NORM,
        NORMS,
    ),
    "the gradient of x stays where stage 0 is": Mutant(
        "mini_batch",
        "else move(gradient, device) for",
        "else gradient for",
        ANYWHERE,
        ON_THREE,
    ),
    "y stays where it is": Mutant(
        "losses",
        "change(lambda part: move(part, device), target)",
        "target",
        ANYWHERE,
        ON_THREE,
    ),
    "what a failed step held stays": Mutant(
        "mini_batch",
        "self.interpreter.let_go()",
        "pass",
        MEMORY,
        LATE,
    ),
    "an error is held by the frame that raises it": Mutant(
        "workers",
        "            del error\n",
        "",
        MEMORY,
        EARLY,
        hangs=True,
    ),
    "the last error is told, not the first": Mutant(
        "mini_batch",
        "with suppress(Exception):",
        "if True:",
        "test_errors.test_an_error_of_the_gpu_keeps_its_note",
        {"way": "step"},
    ),
    "rows on the CPU are not counted": Mutant(
        "mini_batch",
        "if isinstance(meter, Ledger)}",
        "if False}",
        "test_memory.test_cpu_rows_of_a_mixed_pipe_are_counted",
    ),
    "the peak is that of the forward": Mutant(
        "mini_batch",
        "self.peaks[:] =",
        "self.peaks[len(self.peaks) :] =",
        "test_memory.test_what_comes_after_a_step_is_not_in_its_peak",
    ),
}


class _Loader(SourceFileLoader):
    """Loads a module from a text that differs in one place."""

    def __init__(self, spec: ModuleSpec, mutant: Mutant) -> None:
        super().__init__(spec.name, spec.origin)
        self._mutant = mutant

    def get_code(self, fullname):
        text = Path(self.path).read_text()
        assert text.count(self._mutant.text) == 1, f"{self.path} no longer has this line once; name it anew"
        return compile(text.replace(self._mutant.text, self._mutant.instead), self.path, "exec")


class _Finder:
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name, path, target=None):
        if name != f"gpipe_edu.pytorch.{self._mutant.file}":
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = _Loader(spec, self._mutant)
        return spec


@pytest.mark.sweep
@pytest.mark.parametrize("name", MUTANTS)
def test_it_is_killed(name):
    mutant = MUTANTS[name]
    here = __name__.rpartition(".")[0]
    for module in list(sys.modules):
        if module.startswith(("gpipe_edu", f"{here}.test_", f"{here}.scenes")):
            del sys.modules[module]
    sys.meta_path.insert(0, _Finder(mutant))
    cuda.let_in()
    assert f"gpipe_edu.pytorch.{mutant.file}" in sys.modules
    file, _, test = mutant.test.partition(".")
    function = getattr(import_module(f"{here}.{file}"), test)
    died_of = []

    def kill():
        try:
            function(**mutant.arguments)
        except BaseException as error:
            died_of.append(error)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    thread.join(HANGS if mutant.hangs else PATIENCE)
    print(f"{name}: {repr(died_of[0])[:150] if died_of else 'survives or hangs'}", file=sys.__stderr__)
    assert thread.is_alive() if mutant.hangs else died_of, f"nobody misses it: {name}"
