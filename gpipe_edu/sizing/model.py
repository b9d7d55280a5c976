"""What the layers of a model cost, counted on paper: no weights are allocated and nothing runs.

Everything follows from the shapes. A linear layer with `inputs` x `outputs` weights does a multiplication and an
addition per weight and sample, so 2 inputs outputs operations; its backward needs two such products, one for the
input's gradient and one for the weights', so B = 2 F. What is stored for backward is counted as autograd stores it,
which the tests compare with PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import mode
from typing import NamedTuple

from gpipe_edu.base.validate import whole


class Routed(NamedTuple):
    """The routed experts of a layer, a part of what its `LayerSize` says. All but the first three are per sample."""

    experts: int
    top: int  # experts that a token goes to
    parameters: int  # of all of them
    work: int
    stored: int  # among them a copy of each token for each of its experts
    again: int  # of `stored`, what the experts' activation gives, which selective recompute drops
    moved: int
    sent: int  # numbers that go to experts on other devices; as many come back
    nodes: int = 0  # a token's experts are on so many nodes at most; 0: on any
    beside: int = 0  # of the layer's other work, that of experts which every token goes to


class LayerSize(NamedTuple):
    """One layer; a model may be cut between layers. All but `parameters` are per sample."""

    name: str
    parameters: int
    work: int  # operations of a forward
    stored: int  # numbers kept for backward besides the layer's input; the next layer's input is among them
    output: int  # numbers handed on
    scores: int = 0  # of `stored`, the attention scores, which selective recompute drops
    scores_work: int = 0  # of `work`, what recomputes them
    weightless: int = 0  # of `work`, products of two activations, which have no gradient of weights
    moved: int = 0  # numbers that pass between the layer's kernels besides the scores, mostly those stored
    shared: int = 0  # numbers that a tensor group must add up, in a forward and once more in a backward
    whole: int = 0  # of `stored`, what each of a tensor group holds all of, unless it cuts the sequence as well
    exact: int = 0  # of `stored`, numbers of 32 bits whatever the others have
    keys: int = 0  # keys and values, which devices that share a sequence must gather
    tied: int = 0  # weights of the first layer that this one uses as well; on another device it has a copy of them
    routed: Routed | None = None  # of all these, what belongs to experts that each have some of the tokens


class Model(NamedTuple):
    """Layers in order; `inputs` is how many numbers a sample has when it enters."""

    name: str
    inputs: int
    layers: tuple[LayerSize, ...]
    tokens: int = 1  # of a sample
    head: int | None = None  # numbers per token of an attention head
    kind: str = ""  # its model_type in transformers, where that is known

    @property
    def parameters(self) -> int:
        """The number of parameters of all layers, tied ones counted once."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def active(self) -> int:
        """Of these, the number that a token passes: of the routed experts only the top ones."""
        routed = [layer.routed for layer in self.layers if layer.routed]
        return self.parameters - sum(each.parameters * (each.experts - each.top) // each.experts for each in routed)

    @property
    def routed(self) -> bool:
        """Whether it is a mixture of experts."""
        return any(layer.routed for layer in self.layers)

    @property
    def width(self) -> int:
        """Numbers per token that most layers hand on."""
        return mode(layer.output for layer in self.layers) // self.tokens


def mlp(widths: Iterable[int]) -> Model:
    """Linear layers between these widths, with a tanh after each but the last, and a cross-entropy loss after that.

    A tanh stores its output, which is also the input that the next linear layer stores; the loss stores one number per
    class. Raises ValueError for fewer than two widths or one below 1.
    """
    sizes = [whole(f"widths[{index}]", width, 1) for index, width in enumerate(widths)]
    if len(sizes) < 2:
        raise ValueError(f"widths has {len(sizes)} values; a layer needs two, its inputs and its outputs")
    layers = tuple(
        LayerSize(f"linear {index}", inputs * outputs + outputs, 2 * inputs * outputs, outputs, outputs, moved=outputs)
        for index, (inputs, outputs) in enumerate(pairwise(sizes))
    )
    return Model(f"MLP of {len(layers)} layers", sizes[0], layers)


def transformer(
    blocks: int,
    width: int,
    context: int,
    vocabulary: int,
    *,
    hidden: int | None = None,
    gated: bool = False,
    heads: int = 1,
    shared_heads: int | None = None,
    head: int | None = None,
    fused: bool = True,
    tied: bool = False,
) -> Model:
    """An embedding, `blocks` decoder blocks and a head; a sample is a sequence of `context` tokens. d = width.

    A block normalizes, attends with d x d matrices, adds, normalizes, passes d -> hidden -> GELU -> d, and adds again;
    hidden is 4 d unless given. gated: two matrices lead to the hidden layer, of which one gates the other (SwiGLU), and
    there are no biases, and no weights for positions, as in Llama. heads, shared_heads: how many for queries, and for
    keys and values, whose matrices are smaller where several query heads share them. head: numbers per token of a head;
    d / heads unless given, for models whose heads together are wider than d. tied: the head's matrix is the
    embedding's.

    So a plain block has 12 d^2 weights and 13 d biases and gains. Per token it stores 16 d: after each norm d,
    queries, keys and values 3 d, the heads' output d, the two sums d each, before and after the GELU 4 d each. Of
    these, norms and sums, 4 d, are outside of what a tensor group divides. A gated block stores what its two matrices
    give, and their product, which the next one reads; written as two plain operations it would store the gate's other
    side as well, one more number per hidden one. With PyTorch's fused attention no context x context matrix is stored.
    Not fused: there are 2.5 more 16-bit numbers per head and pair of tokens, which selective recompute drops
    (Korthikanti et al. 2022, arXiv 2205.05198). The head stores d and, for the loss, one number of 32 bits per word.

    Raises ValueError for a count below 1, or query heads that can't share keys evenly.
    """
    d, tokens = whole("width", width, 1), whole("context", context, 1)
    blocks, words = whole("blocks", blocks, 1), whole("vocabulary", vocabulary, 1)
    inner = whole("hidden", 4 * d if hidden is None else hidden, 1)
    queries = whole("heads", heads, 1)
    keys = queries if shared_heads is None else whole("shared_heads", shared_heads, 1)
    if queries % keys:
        raise ValueError(f"heads is {queries} and shared_heads {keys}; every key must serve equally many query heads")
    each = None if head is None else whole("head", head, 1)
    wide = d if each is None else queries * each  # what queries have per token
    block = decoder_block(tokens, d, grouped_attention(d, queries, wide, wide * keys // queries), inner, gated, fused)
    positions = 0 if gated else tokens
    return Model(
        f"Transformer of {blocks} blocks",
        tokens,
        (
            LayerSize(
                "embedding", (words + positions) * d, 0, tokens * d, tokens * d, moved=tokens * d, whole=tokens * d
            ),
            *(block._replace(name=f"block {b}") for b in range(blocks)),
            LayerSize(
                "head",
                (0 if tied else words * d) + (1 if gated else 2) * d,
                tokens * 2 * words * d,
                tokens * (d + words),
                tokens * words,
                moved=tokens * (d + words),
                shared=tokens * d,
                whole=tokens * d,
                exact=tokens * words,
                tied=words * d if tied else 0,
            ),
        ),
        tokens,
        d // queries if each is None else each,
    )


class Attention(NamedTuple):
    """What one block's attention has. All but `weights` and `heads` are numbers per token."""

    heads: int  # of queries
    weights: int  # of its matrices
    compared: int  # of queries, each multiplied with a key
    read: int  # of what comes from values
    stored: int  # kept for backward besides its input
    kept: int  # of keys and values, which other tokens need: devices that share a sequence, or a cache


def grouped_attention(width: int, heads: int, wide: int, narrow: int) -> Attention:
    """Queries of `heads` heads with `wide` numbers together; keys, or values, have `narrow`, which several query heads
    may share (Ainslie et al. 2023, arXiv 2305.13245). Stored are queries, keys, values and the heads' output."""
    return Attention(heads, 2 * width * (wide + narrow), wide, wide, 2 * wide + 2 * narrow, 2 * narrow)


def decoder_block(
    tokens: int, width: int, attention: Attention, hidden: int, gated: bool = True, fused: bool = True
) -> LayerSize:
    """The block that `transformer` describes, with any attention. hidden: 0 for a block without a layer of its own
    there, such as one that has experts instead."""
    d, inner, (heads, weights, compared, read, stored_there, kept) = width, hidden, attention
    matrices = weights + (3 if gated else 2) * d * inner
    biases = 2 * d if gated else 6 * d + compared + kept + inner  # and gains
    # Queries with keys, and weights with values: products of context x d numbers per token.
    products = tokens * 2 * tokens * (compared + read)
    scores = 0 if fused else 5 * heads * tokens * tokens // 2
    stored = tokens * (4 * d + stored_there + (3 if gated else 2) * inner)
    return LayerSize(
        "block",
        matrices + biases,
        tokens * 2 * matrices + products,
        stored + scores,
        tokens * d,
        scores=scores,
        scores_work=0 if fused else products,
        weightless=products,
        moved=stored + (tokens * inner if gated else 0),
        shared=2 * tokens * d,
        whole=4 * tokens * d,
        keys=tokens * kept,
    )


def with_ends(blocks: Sequence[int]) -> tuple[int, ...]:
    """A Transformer's layers per stage, by its blocks per stage: the first has the embedding, the last the head."""
    return _at_ends(blocks, 1)


def without_ends(layers: Sequence[int]) -> tuple[int, ...]:
    """A Transformer's blocks per stage, by its layers per stage."""
    return _at_ends(layers, -1)


def _at_ends(counts: Sequence[int], more: int) -> tuple[int, ...]:
    found = list(counts)
    found[0] += more
    found[-1] += more
    return tuple(found)
