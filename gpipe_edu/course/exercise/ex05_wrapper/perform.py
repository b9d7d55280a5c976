"""What happens in the learner's process: their pipeline gets a network that watches itself, and trains."""

from __future__ import annotations

from typing import Any

from .wrapper_gradients import Array

Batch = tuple[Array, Array]


def perform(
    MyGPipe: Any,
    weights: list[Array],
    balance: list[int],
    M: int,
    checkpoint: str,
    batches: list[Batch],
    mode: str = "train",
    dropout: float = 0.0,
    rate: float = 0.0,
    trains_x: bool = False,
    names: str = "",
) -> Any:
    """Build a pipeline and give it one mini-batch after another; what came out, and the calls of the layers.

    mode: "train", "eval" or "no grad". rate: of an optimizer that steps after every mini-batch; without one,
    gradients of all mini-batches add up. trains_x: the batch wants a gradient, too. names: a letter
    for each layer of the net, which are numbered otherwise.
    """
    import torch
    from torch import nn
    from torch.utils.checkpoint import CheckpointError

    from .wrapper_net import arrays, numbered, watched, without_numbers

    torch.set_num_threads(1)
    net, log = watched(weights, dropout, names)
    own = list(net.parameters())
    pipe = MyGPipe(net, balance, M, checkpoint=checkpoint)
    if not isinstance(pipe, nn.Module):
        return {"bad": "not-a-module"}
    place = {id(weight): index for index, weight in enumerate(own)}
    found: dict[str, Any] = {
        "bad": "",
        "weights": [place.get(id(weight), -1) for weight in pipe.parameters()],
        "keys": [list(pipe.state_dict()), list(net.state_dict())],
        "steps": [],
    }
    if mode == "eval":
        pipe.eval()
    optimizer = torch.optim.SGD(own, lr=rate or 1.0, momentum=0.5)
    for x, y in batches:
        given = numbered(x)
        inputs = given.clone().requires_grad_(trains_x)
        log.take()
        with torch.set_grad_enabled(mode != "no grad"):
            output = pipe(inputs)
        step: dict[str, Any] = {"output": output, "graph": False, "loss": None, "dx": None}
        found["steps"].append(step)
        if isinstance(output, torch.Tensor) and output.dim():
            output = without_numbers(output)
            step["output"], step["graph"] = output.detach().numpy().copy(), output.requires_grad
            if mode == "train" and output.requires_grad and output.shape == (len(y), weights[-1].shape[0]):
                loss = nn.functional.cross_entropy(output, torch.from_numpy(y))
                log.phase = "R"
                try:
                    loss.backward()  # type: ignore[no-untyped-call]
                except CheckpointError as error:  # twenty lines, of which the first one says it
                    raise CheckpointError(str(error).strip().splitlines()[0]) from None
                step["loss"] = loss.item()
                del loss  # with it goes the graph
        step["calls"] = log.take()
        step["grads"] = arrays([weight.grad for weight in own])
        step["dx"] = None if inputs.grad is None else inputs.grad[:, :-1].numpy()
        step["changed"] = not torch.equal(inputs, given) or inputs.requires_grad != trains_x
        del output
        step["held"] = log.held()
        if rate:
            optimizer.step()
            optimizer.zero_grad()
    return found
