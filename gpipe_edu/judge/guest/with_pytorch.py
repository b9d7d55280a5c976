"""Importing this loads what answers with PyTorch need, for the processes that are forked from this one."""

from importlib.util import find_spec

if find_spec("torch") is not None:
    import torch
    import torch.multiprocessing.reductions
    import torch.utils.checkpoint

    import gpipe_edu.distributed.rank
    import gpipe_edu.distributed.recorder
    import gpipe_edu.judge.guest.traced_layers
    import gpipe_edu.pytorch  # noqa: F401

    # This loads its compiler, as every optimizer and every checkpoint does.
    torch.compiler.disable(len)  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)
