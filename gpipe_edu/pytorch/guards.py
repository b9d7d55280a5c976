"""What keeps a pipe from being used in a way that would hang it or give wrong numbers. Nothing here makes it work.

Each guard says what was given, what is allowed and what to do; docs/engine_limits.md tells learners why.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.parameter import is_lazy
from torch.torch_version import TorchVersion

from gpipe_edu.base.words import join_words

from . import torch_private
from .values import Value, not_in_pieces, shown, tensors

_P = ParamSpec("_P")
_T = TypeVar("_T")

_OTHER_WORDS = {"chunks": "call it micro_batches", "num_microbatches": "call it micro_batches"}
"""What other libraries call an argument."""

_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def known_words(other: Mapping[str, object], partitions: object, micro_batches: object, who: str = "GPipe") -> None:
    """Raises TypeError for arguments that `who` does not have or lacks, with the word that it has for them."""
    for name in other:
        raise TypeError(f"{who} has no argument {name!r}; {_OTHER_WORDS.get(name, f'help({who}) lists what it has')}")
    if isinstance(partitions, Sequence):
        raise TypeError(
            f"partitions is {partitions!r}; it is the number of stages, and layer counts are the balance: "
            f"GPipe(net, balance={list(partitions)!r}, micro_batches=8)"
        )
    if micro_batches is None:
        raise TypeError("micro_batches is missing: into how many pieces a mini-batch is cut, 8 say")


def gpus_are_there(asked: Iterable[torch.device], count: int) -> None:
    """Raises ValueError for a GPU that PyTorch, which finds `count` of them, cannot use."""
    for device in asked:
        if (device.index or 0) >= count:
            there = f"cuda:0 to cuda:{count - 1}" if count > 1 else "only cuda:0" if count else "no GPU"
            raise ValueError(
                f"devices has {str(device)!r}, and PyTorch finds {there} here; give what there is, or ['cpu']"
            )


def not_sharded(modules: Iterable[nn.Module]) -> None:
    """Raises ValueError for modules that PyTorch's FSDP, old or new, has taken over.

    It gathers a module's whole weights around each of its forwards and backwards, and sends gradients on after each; a
    pipe has M of both in a step, and the step's own weights in their place.
    """
    # A name that both set, so that a course on pipelines need not import them.
    if any("_is_fsdp_managed_module" in vars(module) for module in modules):
        raise ValueError(
            "FSDP (fully_shard, FullyShardedDataParallel) has sharded weights of a pipe, which needs them whole; take "
            "FSDP without a pipe, or replicas of one: DistributedDataParallel(pipe), or over processes "
            "Pipeline(replicas=...)"
        )


def a_sequential(net: object) -> nn.Sequential:
    """`net`, if it is an nn.Sequential. Raises TypeError otherwise, which says how to make one of it."""
    if isinstance(net, nn.Sequential):
        return net
    how = "give nn.Sequential(*net), if each layer takes what the one before it gives"
    if not isinstance(net, (list, tuple, nn.ModuleList)):
        how = (
            "put its parts in a row in which each takes what the one before it gives: nn.Sequential(embedding, "
            "*blocks, head), with the loss outside. docs/at_work.md does so with whole models"
        )
    raise TypeError(
        f"net is a {type(net).__name__}; it must be an nn.Sequential, whose layers can be cut into stages: {how}"
    )


def plain_sequential(net: object) -> nn.Sequential:
    """`net`, if running its layers one after another is all that it does. Raises TypeError or ValueError otherwise."""
    net = a_sequential(net)
    own = {
        "a forward": type(net).forward is not nn.Sequential.forward or "forward" in net.__dict__,
        "parameters": any(weight is not None for weight in net._parameters.values()),
        "buffers": any(buffer is not None for buffer in net._buffers.values()),
        "hooks": any(getattr(net, hooks) for hooks in _HOOKS),
    }
    for what, has in own.items():
        if has:
            raise ValueError(
                f"net, a {type(net).__name__}, has {what} of its own, and a pipe runs only its layers; move that into "
                f"a layer, or give nn.Sequential(*net)"
            )
    return net


def buffers_stay_in_one_stage(stages: Sequence[Sequence[nn.Module]]) -> None:
    """Raises ValueError for a normalization that keeps running means in two stages: gradients add up, but what a
    forward writes does not. Other writes to buffers show only in a step: see `shared_buffers.py`."""
    homes: dict[int, int] = {}
    for k, layers in enumerate(stages):
        for module in (module for layer in layers for module in layer.modules()):
            keeps = isinstance(module, torch_private.NormWithMeans) and any(
                buffer is not None for buffer in module._buffers.values()
            )
            if keeps and homes.setdefault(id(module), k) != k:
                raise ValueError(
                    f"the module {type(module).__name__!r} is used in stage {homes[id(module)]} and in stage {k}, and "
                    "writes to its buffers in training, where the other would not see it; move the cut or give each "
                    "stage its own"
                )


def one_parameter_for_one_memory(stages: Sequence[Sequence[nn.Module]], homes: Mapping[int, int]) -> None:
    """Raises ValueError for two parameters on two ranks that share one piece of memory, which they could not do there.
    homes: for each stage its rank."""
    found: dict[int, tuple[int, str, Tensor]] = {}
    for k, layers in enumerate(stages):
        for name, weight in (entry for layer in layers for entry in layer.named_parameters()):
            if is_lazy(weight) or weight.is_meta or weight.numel() == 0 or not (memory := memory_of(weight)):
                continue
            before, other, first = found.setdefault(memory, (k, name, weight))
            if first is not weight and homes[before] != homes[k]:
                raise ValueError(
                    f"{other!r} in stage {before} and {name!r} in stage {k} are two parameters with one memory, as "
                    "`.data` makes them, and are to be on two ranks; let both layers hold one parameter: "
                    "second.weight = first.weight"
                )


def memory_of(tensor: Tensor) -> int:
    """Where its numbers are; 0 where they are in no one piece of memory, as those of a sparse tensor, or of one that
    wraps others, such as a weight of 8 bits."""
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return 0


def same_number(before: int, now: int) -> None:
    """Raises ValueError if layers were added or removed since the net was cut; exchanging some is fine."""
    if now != before:
        raise ValueError(
            f"the net had {before} layers when it was cut into stages and has {now} now; a layer may be exchanged, but "
            f"for more or fewer make a new GPipe"
        )


def same_layers(net: nn.Sequential, pipe: nn.Module) -> None:
    """Raises ValueError if the net holds its layers elsewhere by now, as it does after `del net[i]` or `net.insert`."""
    if net._modules is not pipe._modules:
        raise ValueError(
            "layers of the net were deleted or inserted since it was cut into stages; one may be exchanged, but for "
            "more or fewer make a new GPipe"
        )


def as_built(net: nn.Sequential, layers: Iterable[Callable[[], object]]) -> None:
    """Raises ValueError if the net no longer has `layers`, weak references to those that processes have taken."""
    now = [layer for layer in plain_sequential(net)._modules.values() if layer is not None]
    before = [layer() for layer in layers]
    if len(now) != len(before) or any(one is not other for one, other in zip(now, before, strict=True)):
        raise ValueError(
            "layers of the net were exchanged, deleted or inserted since each process has taken its own; make another "
            "Pipeline of it, or change the weights of a layer in place"
        )


def has_numbers(net: nn.Module) -> None:
    """Raises ValueError for weights and buffers on the device meta, from which nothing can be moved."""
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if tensor.device.type == "meta":
            raise ValueError(
                f"{name} is on the device meta, where it has no numbers; give the net some first: "
                f"net.to_empty(device='cpu'), and then initialize it or load its state_dict"
            )


def weights_are_there(net: nn.Module) -> None:
    """Raises ValueError for lazy layers, whose weights are not there before their first forward."""
    for name, module in net.named_modules():
        if any(is_lazy(weight) for weight in module._parameters.values()):
            raise ValueError(
                f"the lazy layer {name} has no weights before its first forward; run one first: "
                f"with torch.no_grad(): net(x)"
            )


def in_their_places(stages: Iterable[tuple[Iterable[nn.Module], torch.device]]) -> None:
    """Raises ValueError if weights were moved since the pipe put them on the device of the first stage with them.

    stages: for each its layers and its device.
    """
    homes: dict[int, torch.device] = {}
    for stage, (layers, device) in enumerate(stages):
        for weight in (weight for layer in layers for weight in layer.parameters()):
            home = homes.setdefault(id(weight), device)
            if weight.device != home:
                raise ValueError(
                    f"a weight of stage {stage} is on {weight.device}, and the stage runs on {home}: the net was moved "
                    f"after it was cut; leave its devices to the pipe, or make a new GPipe with other devices"
                )


def one_layer_on_one_gpu(stages: Sequence[Sequence[nn.Module]], homes: Mapping[int, Any]) -> None:
    """Raises ValueError for one module with weights or buffers in two stages, if they do not run on one CPU, or one
    after another on one GPU: it holds them once, for one device. homes: for each stage the place where it runs."""
    first: dict[int, int] = {}
    for k, layers in enumerate(stages):
        for module in (module for layer in layers for module in layer.modules()):
            before = first.setdefault(id(module), k) if module._parameters or module._buffers else k
            on_cpu = homes[before].device.type == homes[k].device.type == "cpu"
            if not on_cpu and homes[before] is not homes[k]:
                kind = type(module).__name__
                own = "give the second the weights of the first: other.weight = layer.weight"
                raise ValueError(
                    f"one {kind} is used in stage {before} on {homes[before].device} and in stage {k} on "
                    f"{homes[k].device}, and can be in one place only; make two"
                    + (f", and {own}" if module._parameters else ": copy.deepcopy(layer)")
                )


def one_input(forward: Callable[_P, _T]) -> Callable[_P, _T]:
    """`forward` of a pipe and x, which raises TypeError for a call with more. Tools that look through wrappers find it
    with the arguments that it has."""

    @wraps(forward)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if more := [*map(shown, args[2:]), *(name for name in kwargs if name != "x" or len(args) > 1)]:
            raise TypeError(
                f"a pipe is given one input, as an nn.Sequential is, and was called with {join_words(more)} besides; "
                "give what belongs to the samples in a tuple, pipe((x, mask)), which the first layer gets as it is, "
                "and keep what is the same for all in a layer"
            )
        return forward(*args, **kwargs)

    return call


def can_be_cut(parts: Iterable[Tensor]) -> None:
    """Raises TypeError for tensors that have no samples one after another."""
    for part in parts:
        if part.layout != torch.strided or part.is_nested:
            kind = "a nested tensor" if part.is_nested else f"a tensor of layout {part.layout}"
            raise TypeError(
                f"the input has {kind}, which can't be cut into micro-batches; give a plain one, to_dense() say"
            )


def stays_where_it_is(apply: Callable[[Tensor], Tensor], devices: Iterable[torch.device]) -> None:
    """Raises ValueError if what is to be done to all weights would move them to another device."""
    for device in devices:
        moved = apply(torch.empty(0, device=device)).device
        if moved != device:
            raise ValueError(
                f"this would move layers of the pipe from {device} to {moved}, and their stages run on {device}; make "
                f"a GPipe of the net with the devices you want: GPipe(net, ..., devices=['{moved}'])"
            )


def is_a_loss(loss_fn: object, reduction: object, who: str = "step()") -> None:
    """Raises TypeError for what is no function, ValueError for a loss whose own reduction is not the one that `who` was
    told."""
    if isinstance(loss_fn, type):
        raise TypeError(f"loss_fn is the class {loss_fn.__name__}; give one of it: {loss_fn.__name__}()")
    if not callable(loss_fn):
        order = f", and {who} is given x, y, loss_fn in this order" if isinstance(loss_fn, Tensor) else ""
        raise TypeError(
            f"loss_fn is {shown(loss_fn)}; it must be a function: (output, target) -> a tensor with one value{order}"
        )
    own = setting(loss_fn, "reduction")
    if (own, reduction) in (("mean", "sum"), ("sum", "mean")):
        raise ValueError(
            f"loss_fn has reduction={own!r} and {who} was told {reduction!r}; give the same: reduction={own!r}"
        )


def is_a_target(y: object) -> None:
    """Raises TypeError for what can't be cut as the input is, ValueError for a target with a graph behind it."""
    if any(part.requires_grad for part in tensors(not_in_pieces(y, "y"))):
        raise ValueError("y requires a gradient, which would be needed once per micro-batch; give y.detach()")


def setting(loss_fn: object, name: str, default: object = None) -> Any:
    """What a loss was told to do: an attribute of a module, a keyword of a functools.partial."""
    keywords = loss_fn.keywords if isinstance(loss_fn, partial) else {}
    return keywords.get(name, getattr(loss_fn, name, default))


def depends_on_something(gradients: Iterable[Tensor | None]) -> None:
    """Raises RuntimeError if a step that has something to train gave no gradient at all, as plain PyTorch does."""
    if all(gradient is None for gradient in gradients):
        raise RuntimeError(
            "the loss depends on nothing that requires a gradient, so there is nothing to train; is it computed from "
            "the output, without detach(), item() or argmax()?"
        )


def are_alike(outputs: Sequence[Value]) -> None:
    """Raises ValueError if the outputs of two micro-batches differ in more than their number of samples."""
    forms = [(isinstance(output, tuple), [tuple(part.shape[1:]) for part in tensors(output)]) for output in outputs]
    for m, form in enumerate(forms):
        if form != forms[0]:
            raise ValueError(
                f"the last stage returns {_form(*forms[0])} for micro-batch 0 and {_form(*form)} for micro-batch {m}, "
                f"which can't be joined; a layer must not make that depend on the samples it sees, so pad to a fixed "
                f"length, say"
            )


def _form(is_tuple: bool, shapes: Sequence[tuple[int, ...]]) -> str:
    several = f"a tuple of {len(shapes)} with " if is_tuple else ""
    return f"{several}samples of shape {' and '.join(map(str, shapes))}"


def have_samples(outputs: Iterable[Tensor]) -> None:
    """Raises ValueError for what the last stage returns without samples, such as a loss: it cannot be joined."""
    if any(output.dim() == 0 for output in outputs):
        raise ValueError(
            "the last stage returns a single number for each micro-batch, and pipe(x) joins outputs sample by sample; "
            "compute the loss after the pipe, or in pipe.step(x, y, loss_fn)"
        )


def has_memory(weights: Iterable[Tensor]) -> None:
    """Raises ValueError where weights are not there yet, so that they cannot be told from activations."""
    if any(is_lazy(weight) for weight in weights):
        raise ValueError(
            "measure_memory=True must know the weights, and a lazy layer has none before its first forward; run one "
            "first: with torch.no_grad(): pipe(x)"
        )


def can_be_compiled(release: str) -> None:
    """Raises ValueError for layers under torch.compile with a PyTorch whose compiler ends the process in a thread."""
    if TorchVersion(release) < "2.12":
        raise ValueError(
            f"a layer is under torch.compile, which crashes in the thread of a stage with PyTorch {release}; take "
            "PyTorch 2.12 or newer, or the layers as they are"
        )


def can_be_deferred(layers: Iterable[nn.Module]) -> None:
    """Raises ValueError for a lazy batch normalization, whose running statistics are not there yet."""
    if any(is_lazy(buffer) for layer in layers for buffer in layer.buffers()):
        raise ValueError(
            "deferred_batch_norm=True keeps the running statistics apart, and a lazy batch normalization has none "
            "before its first forward; run one first: net.eval()(x), then net.train()"
        )


def runs_for_real(x: object) -> None:
    """Raises RuntimeError inside what records or transforms a model instead of running it: threads are not seen."""
    transforming = {
        "torch.fx.symbolic_trace": isinstance(x, Proxy),
        "a FakeTensorMode": torch_private.fakes(),
        "torch.jit.trace": torch_private.traces(),
        "torch.export": torch.compiler.is_exporting(),
        "a transform of torch.func (grad, vmap, jvp)": torch_private.transforms(),
        "forward-mode differentiation (dual_level)": torch_private.differentiates_forward(),
    }
    if torch_private.caches_parametrizations():
        raise RuntimeError(
            "a pipe was called inside torch.nn.utils.parametrize.cached(), which computes a weight once, and every "
            "micro-batch and recompute needs it in a graph of its own; call the pipe outside"
        )
    for name, active in transforming.items():
        if active:
            raise RuntimeError(
                f"a pipe was called inside {name}, which cannot follow it into its threads; use the layers without "
                f"the pipe: nn.Sequential(*pipe.children())"
            )


def no_script() -> None:
    """Raises RuntimeError for torch.jit.script, which compiles a forward and the threads it starts."""
    raise RuntimeError(
        "torch.jit.script cannot compile a pipe, which runs its stages on threads; use the layers without the pipe: "
        "nn.Sequential(*pipe.children())"
    )


_A_TUPLE = (
    "a tuple goes as it is to the first layer, as one value of several tensors; in place of micro-batches that were "
    "cut before, give the whole mini-batch, which the pipe cuts itself"
)
_PYTORCH_SAYS = {
    "backward through the graph a second time": "a layer or the loss uses a tensor that was computed before the step, "
    "and each micro-batch would go back through that computation; do it inside the layer or the loss",
    "does not require grad": "a forward that will be recomputed keeps no graph; where a layer asks for gradients in "
    "its forward, it needs torch.enable_grad() around that, or the pipe checkpoint='never'",
    "that doesn't require gradient": "a forward that will be recomputed keeps no graph; a hook on its activations "
    "needs `if output.requires_grad`, or the pipe checkpoint='never'",
    "must be Tensor, not tuple": _A_TUPLE,
    "'tuple' object has no attribute": _A_TUPLE,
    "under selective activation checkpoint": "create_selective_checkpoint_contexts stores what serves one backward, "
    "but zero bubble makes it in two, I and W; take another schedule, leave context_fn out, or checkpoint a part "
    "without weights",
}


def what_it_means(error: BaseException, samples: int = 0, of: int = 0) -> str | None:
    """For what PyTorch says of a layer that is right on one device: why it is wrong in a stage, and what to do.

    samples, of: those of the micro-batch, and of the mini-batch, where an op of a micro-batch has failed.
    """
    words = str(error) if isinstance(error, (RuntimeError, ValueError, TypeError, AttributeError)) else ""
    if (
        samples != of
        and re.search(rf"([\[(]|size ){of}(?!\d)", words)
        and not re.search("singleton dimension [1-9]", words)
    ):
        return (
            f"a layer or the loss gets a micro-batch, here {samples} of the mini-batch's {of} samples; where it counts "
            f"on {of}, let it take the number from what it gets: len(x)"
        )
    return next((meaning for part, meaning in _PYTORCH_SAYS.items() if part in words), None)


def grad_is_enabled(instead: str = "pipe(x)") -> None:
    """Raises RuntimeError where no gradient may be computed. instead: what gives the output alone."""
    if not torch.is_grad_enabled():
        raise RuntimeError(
            f"step() trains, but was called under no_grad or inference_mode; leave that, or call the pipe for its "
            f"output alone: {instead}"
        )


def first_derivative(gradients: Iterable[Tensor | None]) -> None:
    """Raises RuntimeError in a backward that is to be differentiated again (a pipe's backward leaves no graph), or that
    brings many gradients at once."""
    if any(gradient is not None and torch_private.is_batched(gradient) for gradient in gradients):
        raise RuntimeError(
            "a backward with is_grads_batched=True came to a pipe, which takes one gradient at a time; use the layers "
            "without the pipe: nn.Sequential(*pipe.children())"
        )
    if torch.is_grad_enabled():
        raise RuntimeError(
            "a backward with create_graph=True came to a pipe, which computes first derivatives only; use the layers "
            "without the pipe: nn.Sequential(*pipe.children())"
        )


def same_parameters(held: Iterable[tuple[nn.Module, str, Tensor]]) -> None:
    """Raises RuntimeError if a layer no longer holds what it held, under that name, when the step began."""
    for layer, name, weight in held:
        if name not in layer._parameters or layer._parameters[name] is not weight:
            raise RuntimeError(
                f"a {type(layer).__name__} put another parameter in place of its {name!r} in its forward, which would "
                f"be lost; change it in place, under no_grad, or do it between two steps"
            )


def unchanged(versions: Sequence[int], now: Sequence[int], what: str) -> None:
    """Raises RuntimeError if tensors were changed in place since a forward that is to be recomputed from them."""
    if versions != now:
        raise RuntimeError(
            f"{what} was changed in place between forward and backward, so the recompute would give other values than "
            f"the forward; change it after backward, or give checkpoint='never'"
        )


class Turn:
    """One run of a pipe at a time, in whatever thread: its workers and its layers serve one mini-batch."""

    def __init__(self) -> None:
        self._new()

    def _new(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._holder: threading.Thread | None = None

    @contextmanager
    def take(self, workers: Sequence[threading.Thread], wait: bool = True) -> Iterator[None]:
        """Around a run; waits until no other one is going on. Raises RuntimeError where it would wait forever.

        workers: the pipe's own threads, whose run cannot end before they do. wait: False where a run of another
        thread needs the thread that would wait here.
        """
        if self._process != os.getpid():
            self._new()  # a forked child: the thread that had the lock is not in it
        me = threading.current_thread()
        if me in workers or me is self._holder:
            raise RuntimeError(
                "a pipe was called by one of its own layers or by its loss function; a copy of it may be called "
                "there: copy.deepcopy(pipe)"
            )
        if not self._lock.acquire(blocking=wait):
            raise RuntimeError(
                "on a GPU, a backward, or a hook in one, came to a pipe while it was running already; let threads take "
                "turns from forward to backward, or call pipe.step(), and let a hook use a pipe of its own"
            )
        self._holder = me
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()  # a copy of a pipe has turns of its own
