"""What the parts of a step cost on one device: one function per cost, with its formula, its units and its source.

Three numbers are fitted, to published runs (docs/published_runs.md); `benchmarks/published_runs.py` fits them on one
half of the runs and judges them by the other. A fourth is fitted to two thirds of the runs of mixtures. All else is
counted from shapes or comes from a data sheet.

Together they give an efficiency for every shape: a block of width w does 24 w^2 operations per token and moves 16 w
MOVES numbers, so narrow layers wait for the memory. With S = speed / bandwidth, in operations per byte, the share of
`speed` that is left in a forward is 1 / (1 + w0 / w), w0 = 2 * 16 MOVES S / 24 for 16-bit numbers, and what is added to
the gradients after n tokens makes it 1 / (1 + w0 / w + n0 / n), n0 = 14 S / 6.
"""

from __future__ import annotations

from typing import Final

from .job import Machine
from .model import LayerSize

SHARE = 0.9
"""Fitted: the share of a benchmark's best for a single product that the matrix products of a whole model reach."""

MOVES = 5.5
"""Fitted: how often a number that passes between kernels is written or read in a forward; twice that in a backward."""

OVERLAP = 0.5
"""Fitted: the share of the work during which devices of different replicas really exchange weights and gradients."""

EXCHANGE = 1.3
"""Fitted, to runs of mixtures alone: how many times as long as `exchange` an all-to-all of tokens really takes."""

SCORE_MOVES: Final = 2
"""Counted: an attention score that is stored is written once and read once in a forward."""

ACCUMULATION: Final = 14
"""Counted, in 16 bits with gradients in 32: bytes per parameter and micro-batch: its weight read in the forward and in
the backward (2 + 2), its gradient written (2) and added to the sum, which is read and written (4 + 4)."""


TILE: Final = 128
"""Rows of a tile, to which kernels for grouped products pad each expert's tokens (DeepGEMM's README, "alignment")."""


def speed(peak: float, best_matmul: float) -> float:
    """Operations per second that a model's products sustain: peak * the best share measured * SHARE."""
    return peak * best_matmul * SHARE


def compute(work: float, machine: Machine) -> float:
    """Seconds for `work` operations of matrix products: work / speed. m x k numbers with k x n are 2 m k n."""
    return work / machine.speed


def grouped(work: float, rows: float, machine: Machine) -> float:
    """Seconds for `work` operations of products with `rows` tokens for each expert: work / speed (1 + TILE / 2 rows).

    Half a tile of each expert is padding on average, so few tokens are slow. What else makes them slow, that weights
    are read for few products, is `accumulate`'s."""
    return compute(work * (1 + TILE / 2 / rows), machine)


def traffic(numbers: float, scores: float, activation: int, machine: Machine) -> float:
    """Seconds for all but the matrix products of a forward, which waits for the memory: bytes moved / bandwidth.

    (MOVES * numbers + SCORE_MOVES * scores) * bytes per number / bandwidth; numbers: what passes between kernels.
    """
    if machine.bandwidth is None:
        return 0.0
    return (MOVES * numbers + SCORE_MOVES * scores) * activation / machine.bandwidth


def accumulate(parameters: float, machine: Machine) -> float:
    """Seconds in each micro-batch's backward for adding up gradients: ACCUMULATION * parameters / bandwidth."""
    return 0.0 if machine.bandwidth is None else ACCUMULATION * parameters / machine.bandwidth


def update(state: tuple[int, int, int], parameters: float, machine: Machine) -> float:
    """Seconds of the optimizer for so many parameters of its own: gradients read, its state read and written, weights
    written, over the bandwidth. state: bytes per parameter of weight, gradient, optimizer."""
    weight, gradient, optimizer = state
    return 0.0 if machine.bandwidth is None else (weight + gradient + 2 * optimizer) * parameters / machine.bandwidth


def divide(layer: LayerSize, tensor: int, sequence: bool) -> tuple[float, float]:
    """Numbers that each of a tensor group moves, and stores, for one sample of `layer`.

    Stored: `whole` by each, the rest divided; with sequence parallelism everything is divided (Korthikanti et al. 2022,
    arXiv 2205.05198, table 2). Of what is moved, half is norms and sums, which likewise are divided only with it.
    """
    if tensor == 1 or sequence:
        return layer.moved / tensor, layer.stored / tensor
    undivided = layer.moved / 2 if layer.whole else 0.0
    return undivided + (layer.moved - undivided) / tensor, layer.whole + (layer.stored - layer.whole) / tensor


def stored_bytes(layer: LayerSize, numbers: float, activation: int) -> float:
    """Bytes of what a layer stores: `numbers` of `activation` bytes, except exact ones, which take at least four."""
    return numbers * activation + numbers / layer.stored * layer.exact * max(0, 4 - activation) if layer.stored else 0.0


def tensor_messages(count: float, tensor: int, machine: Machine) -> float:
    """Seconds of a tensor group's exchanges in a forward, and again in a backward: an all-reduce of `count` bytes, or,
    with sequence parallelism, its two halves separately (Shoeybi et al. 2019, arXiv 1909.08053). Counted as if nothing
    hid them, though today's kernels send a piece while they multiply the next."""
    return 2 * machine.ring(count, tensor)


def context_messages(count: float, context: int, tensor: int, machine: Machine) -> float:
    """Seconds of one exchange of keys and values, `count` bytes of whole sequences, among devices that share these.

    An all-gather in a forward; in a backward once more, and their gradients' reduce-scatter (Llama 3, arXiv 2407.21783,
    section 3.3.2).
    """
    return machine.ring(count, context, tensor)


def exchange(token: float, copies: int, ranks: int, apart: int, nodes: int, once: bool, machine: Machine) -> float:
    """Seconds of one all-to-all in which each of `ranks` devices, `apart` devices from one to the next, sends `copies`
    of each token's `token` bytes to experts anywhere, its own among them.

    Of these, (g-1)/R pass a link within a node of g, and (R-g)/R the network, both at a time. once: a token passes to a
    node once, and there to a device once, whatever experts it has there (DeepEP, of DeepSeek-V3: `is_token_in_rank` in
    `csrc/kernels/intranode.cu` of v1.2.1); of n places it reaches n (1 - (1-1/n)^copies) on average, and of nodes at
    most `nodes`, unless that is 0.
    """
    if ranks == 1:
        return 0.0
    within = ranks if machine.node is None else min(ranks, max(1, machine.node // apart))
    there = ranks / within
    near, far = copies * (within - 1) / ranks, copies * (ranks - within) / ranks
    if once:
        most = min(nodes or there, there)
        reached, devices = there * (1 - (1 - 1 / there) ** copies), most * within
        near = devices * (1 - (1 - 1 / devices) ** copies) * (within - 1) / within
        far = min(reached, most) * (there - 1) / there
    outside = machine.network or machine.link
    seconds = max(near * token / machine.link if machine.link else 0.0, far * token / outside if outside else 0.0)
    return seconds + machine.latency * (within - 1 + there - 1)


def boundary_message(count: float, devices: int, machine: Machine) -> float:
    """Seconds for which a message of `count` bytes to the next stage keeps its link busy: bytes / bandwidth.

    devices: how many work together; the slowest link among them counts.
    """
    slowest = machine.slowest(devices)
    return count / slowest if slowest else 0.0


def exposed(exchange: float, work: float) -> float:
    """Seconds of an exchange among replicas that `work` seconds beside it do not hide: exchange - OVERLAP * work."""
    return max(0.0, exchange - OVERLAP * work)
