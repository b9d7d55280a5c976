"""Makes `torch.distributed` and autograd of this process note in its diary what they do. Tensors go their usual way.

All ways to send and receive end in `isend` and `irecv`, so these two are enough; a blocking `send` is one that waits
at once.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import distributed_c10d as c10d

from .diary import Diary, NoNeighbour, line

_COLLECTIVES: Final = (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
)

_BLOCKING: Final = ("send", "recv")


class Watch:
    """Watches this process. `diary` is the one being written, None between two runs."""

    def __init__(self) -> None:
        self.diary: Diary | None = None
        self._reached: list[int] = []
        self._forwards = 0
        self.barrier = dist.barrier
        for name, peer in (("isend", "dst"), ("irecv", "src")):
            self._replace(name, self._post(getattr(c10d, name), name, peer))
        for name in _COLLECTIVES:
            self._replace(name, self._collective(getattr(c10d, name), name))
        for name in ("backward", "grad"):  # Tensor.backward calls the former
            setattr(torch.autograd, name, self._backward(getattr(torch.autograd, name)))

    def stage(self, stage: nn.Sequential) -> None:
        """Note the forwards of `stage`, which begin with its first child and end with its last, and its backwards."""
        self._forwards = 0
        started, needs = [0.0], [False]

        def before(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            started[0], needs[0] = perf_counter(), inputs[0].requires_grad

        def after(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            index, self._forwards = self._forwards, self._forwards + 1
            if output.requires_grad:
                output.register_hook(lambda gradient: self._reached.append(index))  # type: ignore[no-untyped-call]
            self._note(op="F", index=index, needs=needs[0], start=started[0], end=perf_counter())

        stage[0].register_forward_pre_hook(before)
        stage[-1].register_forward_hook(after)

    def step(self) -> None:
        """A training step begins: its forwards are counted from 0."""
        self._forwards = 0
        self._note(step=True)

    def step_ended(self) -> None:
        """The function of a training step has returned."""
        self._note(returned=True)

    def loss(self, loss_fn: Callable[..., Any]) -> Callable[..., Any]:
        """`loss_fn`, noted whenever it is called."""

        def noted(*args: Any, **kwargs: Any) -> Any:
            self._note(loss=True)
            return loss_fn(*args, **kwargs)

        return noted

    def _note(self, **entry: Any) -> None:
        if self.diary is not None:
            self.diary.note(**entry)

    def _replace(self, name: str, function: Callable[..., Any]) -> None:
        setattr(c10d, name, function)
        setattr(dist, name, function)

    def _post(self, original: Callable[..., Any], name: str, peer_name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def post(
            tensor: Any, peer: Any = None, group: Any = None, tag: int = 0, group_peer: Any = None, **kw: Any
        ) -> Any:
            # PyTorch passes on all parameters that can name a peer, with None for those that were not given.
            peer = kw.get(peer_name) if peer is None else peer
            inside = kw.get(f"group_{peer_name}") if group_peer is None else group_peer
            if peer is None and inside is not None:
                peer = inside if group is None else dist.get_global_rank(group, inside)
            diary = self.diary
            if diary is not None and isinstance(peer, int):
                _check_peer(peer)  # first: without a neighbour there is no tensor for it either
            if diary is None or not isinstance(tensor, Tensor):
                return original(tensor, peer, group, tag)
            caller = sys._getframe(1).f_code
            number, diary.posts = diary.posts, diary.posts + 1
            diary.note(
                post=number,
                do=caller.co_name if caller.co_filename == c10d.__file__ and caller.co_name in _BLOCKING else name,
                peer=peer,
                tag=tag,
                shape=list(tensor.shape),
                dtype=str(tensor.dtype).removeprefix("torch."),
                memory=tensor.data_ptr(),
                line=line(),
            )
            try:
                work = original(tensor, peer, group, tag)
            except BaseException:
                diary.note(end=number)
                raise
            return Handle(work, number, diary)

        return post

    def _collective(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            self._note(collective=name, line=line())
            return original(*args, **kwargs)

        return collective

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._reached.clear()
            start = perf_counter()
            result = original(*args, **kwargs)
            self._note(op="B", index=list(self._reached), start=start, end=perf_counter())
            return result

        return backward


class Handle:
    """What `isend` and `irecv` return: it notes when it is waited for, and if it is dropped before that."""

    def __init__(self, work: Any, number: int, diary: Diary) -> None:
        self._work, self._number, self._diary, self._ended = work, number, diary, False

    def wait(self, *args: Any) -> Any:
        """Wait until the message has left, or is here."""
        if self._ended:
            return True
        self._diary.note(wait=self._number, line=line())
        result = self._work.wait(*args)
        self._end()
        return result

    def is_completed(self) -> bool:
        """Whether the message has left, or is here."""
        done = bool(self._work.is_completed())
        if done and not self._ended:
            self._end()
        return done

    def _end(self) -> None:
        self._ended = True
        self._diary.note(end=self._number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    def __del__(self) -> None:
        if not self._ended:
            self._diary.note(drop=self._number)


def _check_peer(peer: int) -> None:
    # PyTorch accepts some of these, and then waits forever.
    here, size = dist.get_rank(), dist.get_world_size()
    if not 0 <= peer < size or peer == here:
        others = " and ".join(str(rank) for rank in range(size) if rank != here)
        raise NoNeighbour(f"process {here} has no neighbour {peer}: it can send to and receive from {others}")
