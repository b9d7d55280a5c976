"""What the layers of a model cost, counted on paper: no weight is made and nothing runs.

Everything follows from the shapes. A linear layer with `inputs` x `outputs` weights does a multiplication and an
addition per weight and sample, so 2 inputs outputs operations; its backward needs two such products, one for the
input's gradient and one for the weights', so B = 2 F. What is stored for backward is counted as autograd does it,
which the tests hold against PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from gpipe_edu.validate import whole


class LayerSize(NamedTuple):
    """One layer, where a model may be cut. All but `parameters` are per sample."""

    name: str
    parameters: int
    work: int  # operations of a forward
    stored: int  # numbers kept for backward besides the layer's input; the next layer's input is among them
    output: int  # numbers handed on


class Model(NamedTuple):
    """Layers in order; `inputs` is how many numbers a sample has when it enters."""

    name: str
    inputs: int
    layers: tuple[LayerSize, ...]

    @property
    def parameters(self) -> int:
        """Of all layers."""
        return sum(layer.parameters for layer in self.layers)


def mlp(widths: Iterable[int]) -> Model:
    """Linear layers between these widths, each with a tanh but the last, which has a cross-entropy loss behind it.

    A tanh stores its output, which is also the input that the next linear layer stores; the loss stores one number per
    class. Raises ValueError for less than two widths or one below 1.
    """
    sizes = [whole(f"widths[{index}]", width, 1) for index, width in enumerate(widths)]
    if len(sizes) < 2:
        raise ValueError(f"widths has {len(sizes)} values; a layer needs two, its inputs and its outputs")
    layers = tuple(
        LayerSize(f"linear {index}", inputs * outputs + outputs, 2 * inputs * outputs, outputs, outputs)
        for index, (inputs, outputs) in enumerate(pairwise(sizes))
    )
    return Model(f"MLP of {len(layers)} layers", sizes[0], layers)


def transformer(blocks: int, width: int, context: int, vocabulary: int) -> Model:
    """An embedding, `blocks` decoder blocks and a head; a sample is a sequence of `context` tokens. d = width.

    A block normalizes, attends with four d x d matrices, adds, normalizes, and passes d -> 4 d -> GELU -> d, so it has
    12 d^2 weights (and 13 d biases and gains). Per token it stores 16 d: after either norm d, queries, keys and values
    3 d, the heads' output d, the two sums d each, before and after the GELU 4 d each. No d x d and no context x context
    matrix is stored: attention is taken as PyTorch's fused kernel. The head stores d and, for the loss, one number
    per word. Raises ValueError for a count below 1.
    """
    d, tokens = whole("width", width, 1), whole("context", context, 1)
    blocks, words = whole("blocks", blocks, 1), whole("vocabulary", vocabulary, 1)
    # Queries with keys, and weights with values: 2 products of context x d numbers per token.
    attention = 2 * 2 * tokens * d
    return Model(
        f"Transformer of {blocks} blocks",
        tokens,
        (
            LayerSize("embedding", (words + tokens) * d, 0, tokens * d, tokens * d),
            *(
                LayerSize(
                    f"block {b}",
                    12 * d * d + 13 * d,
                    tokens * (2 * 12 * d * d + attention),
                    tokens * 16 * d,
                    tokens * d,
                )
                for b in range(blocks)
            ),
            LayerSize("head", words * d + 2 * d, tokens * 2 * words * d, tokens * (d + words), tokens * words),
        ),
    )
