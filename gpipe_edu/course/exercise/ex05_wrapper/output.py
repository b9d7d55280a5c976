"""Is a pipeline a module that can take the place of its net: its parameters, its output, the names of its weights?"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpipe_edu.course.judging import SLIPS
from gpipe_edu.course.task import Blame, Wrong
from gpipe_edu.process.plain import a_name_of, name_of

from .wrapper_gradients import Array, off


def judge_module(found: Any, count: int, wrong: Blame) -> None:
    """Is it a module, and are its parameters those of net?"""
    if found["bad"]:
        raise wrong("not-a-module", "A pipeline is an `nn.Module` itself, so that it can take the place of `net`.")
    places = found["weights"]
    if not places:
        because = (
            "`parameters()` of your pipeline is empty, so an optimizer would find nothing to train. A plain list hides "
            "modules from PyTorch: register the layers."
        )
        raise wrong("not-registered", because, f"{count} parameters", "none")
    if -1 in places:
        because = (
            "The parameters are not those of `net` but copies. Whoever holds `net` would see it never learn; stages "
            "are made of the layers themselves."
        )
        raise wrong("copied", because)
    if sorted(places) != list(range(count)):
        because = "Some layers of `net` are registered and others not, so that only some weights would be trained."
        raise wrong("some-registered", because, f"{count} parameters", f"{len(places)}")


def judge_form(output: Any, truth: Array, wrong: Blame) -> None:
    """Is it a tensor of the right shape?"""
    if output is None:
        raise wrong("no-return", SLIPS["no-return"], "a tensor", "None")
    if isinstance(output, list | tuple):
        because = "The micro-batches come out one by one. Join them, so that the loss can be taken of the whole output."
        raise wrong("not-joined", because, f"a tensor of shape {truth.shape}", f"{a_name_of(output)} of {len(output)}")
    if not isinstance(output, np.ndarray):
        raise wrong("no-tensor", "The output is no tensor.", f"a tensor of shape {truth.shape}", name_of(output))
    if output.shape == truth.shape:
        return
    shapes = f"shape {truth.shape}", f"shape {output.shape}"
    if output.shape[1:] == truth.shape[1:] and len(output) > len(truth):
        because = "The output has more rows than the mini-batch: something is left over from before, or was added."
        raise wrong("more-rows", because, *shapes)
    if output.shape[1:] == truth.shape[1:]:
        because = "The output has fewer rows than the mini-batch. All micro-batches have to come out again, joined."
        raise wrong("fewer-rows", because, *shapes)
    because = "The output has another shape than that of `net`: join the micro-batches along their first axis."
    raise wrong("other-shape", because, *shapes)


def judge_values(output: Array, truth: Array, changed: bool, wrong: Blame) -> None:
    """Is it the output of one device? changed: whether the mini-batch is no longer what it was."""
    if off([output], [truth]) > 1e-9:
        if np.allclose(np.sort(output, axis=0), np.sort(truth, axis=0), rtol=0, atol=1e-9):
            because = (
                "All rows are there, in another order than in x. Row i of the output is compared with label i, so the "
                "network would learn wrong labels without any error."
            )
            raise wrong("other-order", because, "row i belongs to sample i", "rows in another order")
        raise wrong("other-output", "Each sample's output has to be what `net` gives for it.", "net(x)", "other values")
    if changed:
        raise wrong("x-changed", "The mini-batch itself was changed. It belongs to whoever calls the pipeline.")


def no_graph(checkpoint: str, wrong: Blame) -> Wrong:
    """What is wrong with an output that leads to no weight."""
    if checkpoint != "never":
        because = (
            "With checkpoint the output has lost its graph. The old variant of checkpoint builds none if the input "
            "needs no gradient, as x does: give `use_reentrant=False`."
        )
        return wrong("reentrant", because, "an output with a graph", "requires_grad=False")
    because = (
        "The output has no graph, so `backward()` can't get to any weight. Nothing may be detached here, nor run under "
        "`no_grad`."
    )
    return wrong("no-graph", because, "an output with a graph", "requires_grad=False")


def judge_keys(ours: list[str], theirs: list[str], wrong: Blame) -> None:
    """Stored weights must fit, with and without the pipeline."""
    if ours == theirs:
        return
    # The layers of the check have a layer inside, which a learner knows nothing of.
    expected, came = (", ".join([*names[:2], "..."]).replace(".layer.", ".") for names in (theirs, ours))
    if len(ours) > len(theirs):
        because = (
            "Every weight is in `state_dict()` twice, because the layers are registered under two names. A stored "
            "model would be twice as large: register them once."
        )
        raise wrong("registered-twice", because, f"{len(theirs)} entries", f"{len(ours)} entries")
    if not theirs[0][0].isdecimal() and all(key[0].isdecimal() for key in ours):
        because = (
            "Layers of a net may have names, as in `nn.Sequential(OrderedDict(a=..., b=...))`. Yours are numbered "
            "anew, so stored weights of `net` do not fit. Register each layer under net's own name for it."
        )
        raise wrong("numbered-anew", because, expected, came)
    because = (
        "The weights have other names than in `net`, so what one of them has stored the other can't load. Register "
        "each layer under the name that it has in `net`."
    )
    raise wrong("other-keys", because, expected, came)
