"""Blocks of today's largest models, counted on paper: latent attention, experts, and heads that predict further tokens.

A mixture of experts sends each token to the `top` of a layer's experts. All of these have parameters, gradients and an
optimizer's state; a token pays for the top ones. What is stored for backward is counted as kernels for grouped products
keep it: a copy of each token for each of its experts, in the experts' order, and what is in their hidden layers. An
expert's output is not kept, since the router's weight multiplies what goes into its last product, as in Megatron Core.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .model import Attention, LayerSize, Routed

FURTHER: Final = "further head"
"""The name of a layer that predicts one token further."""


class Latent(NamedTuple):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): numbers of its vectors.

    Queries come from a vector of `query_rank` numbers, or straight from the token if that is 0; keys and values from
    one of `rank` that all heads share. Each head's queries and keys also have `rotary` numbers that say where a token
    stands; a token has one such key for all heads.
    """

    query_rank: int
    rank: int
    plain: int  # of a head's queries and keys, those without a place
    rotary: int
    value: int  # of a head's values

    def attention(self, width: int, heads: int) -> Attention:
        """As it is trained: keys and values of every head are computed from what is shared.

        Stored are both shared vectors before and after their norms, the key with a place, and all heads' queries, keys,
        values and output. Devices that share a sequence gather keys and values.
        """
        queries, values = heads * (self.plain + self.rotary), heads * self.value
        to_queries = self.query_rank * (width + queries) if self.query_rank else width * queries
        to_keys = width * (self.rank + self.rotary) + self.rank * heads * (self.plain + self.value)
        stored = 2 * self.query_rank + 2 * self.rank + self.rotary + 2 * queries + 2 * values
        return Attention(heads, to_queries + to_keys + values * width, queries, values, stored, queries + values)

    def absorbed(self, width: int, heads: int) -> Attention:
        """As it generates: the matrices that make keys and values are absorbed into those of queries and output, so
        that heads attend to the shared vector itself. A token keeps rank + rotary numbers, whatever the heads; for
        that, each head compares, and reads, vectors of `rank` numbers."""
        own = self.attention(width, heads)
        compared, read = heads * (self.rank + self.rotary), heads * self.rank
        return own._replace(compared=compared, read=read, kept=self.rank + self.rotary)

    @property
    def gains(self) -> int:
        """Of the two norms."""
        return self.query_rank + self.rank


class Experts(NamedTuple):
    """The experts of a block, all with gated hidden layers."""

    number: int
    top: int
    hidden: int  # of each
    shared: int = 0  # hidden numbers of all experts together that every token goes to
    nodes: int = 0  # a token's experts are on so many nodes at most; 0: on any


def with_experts(block: LayerSize, tokens: int, width: int, experts: Experts) -> LayerSize:
    """A block with these experts, made from one whose own hidden layer has the numbers that they share.

    The router is a matrix of width x number; its results are numbers of 32 bits.
    """
    number, top, hidden, shared, nodes = experts
    copies, inner = tokens * top * width, tokens * top * hidden
    parameters, stored = number * 3 * width * hidden, copies + 3 * inner
    routed = Routed(
        number,
        top,
        parameters,
        work=2 * 3 * inner * width,
        stored=stored,
        again=inner,
        moved=stored + inner + copies,  # the other side of the gate, and what experts give
        sent=copies,
        nodes=nodes,
        beside=tokens * 2 * 3 * width * shared,
    )
    return block._replace(
        parameters=block.parameters + width * number + parameters,
        work=block.work + tokens * 2 * width * number + routed.work,
        stored=block.stored + tokens * number + stored,
        moved=block.moved + tokens * number + routed.moved,
        exact=tokens * number,
        routed=routed,
    )


def further_head(block: LayerSize, head: LayerSize, tokens: int, width: int) -> LayerSize:
    """What predicts one token further (DeepSeek-V3, arXiv 2412.19437, section 2.2): a block behind a matrix that joins
    what the last one gave with the next token's embedding. It uses the model's embedding and head, and has a loss."""
    words = head.output // tokens
    again = tokens * 5 * width  # what both norms give, apart and joined, and the block's input
    return block._replace(
        name=FURTHER,
        parameters=block.parameters + 2 * width * width + 3 * width,
        work=block.work + tokens * 2 * 2 * width * width + tokens * 2 * words * width,
        stored=block.stored + again + head.stored,
        moved=block.moved + again + head.moved,
        shared=block.shared + head.shared,
        whole=block.whole + again + head.whole,
        exact=block.exact + head.exact,
        tied=words * width,
    )
