"""The figures that the GPipe paper reports, as data, so that notes and notebooks redraw them and never retype them.

[G] Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, arXiv 1811.06965 v5.
[N] The same paper at NeurIPS 2019. It adds a section 3.1 with a table, so its later tables are numbered one higher.
Table numbers below are those of [G]. Everything here is as printed, slips included: what to think of a figure is said
in docs/paper_notes.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Capacity(NamedTuple):
    """The largest model that fits on `accelerators`: a limit of memory, not a model that was trained.

    size is (L, D), layers and filters, for AmoebaNet-D and (L,) for the Transformer. Bytes are over all accelerators.
    """

    name: str
    accelerators: int
    size: tuple[int, ...]
    parameters: float
    parameter_bytes: float
    activation_bytes: float


BYTES_PER_PARAMETER: Final = 12
"""What the paper counts for a parameter with its RMSProp state [G, table 1]."""

CAPACITY: Final[dict[str, tuple[Capacity, ...]]] = {
    "AmoebaNet-D": (
        Capacity("Naive-1", 1, (18, 208), 82e6, 1.05e9, 6.26e9),
        Capacity("Pipeline-1", 1, (18, 416), 318e6, 3.8e9, 3.46e9),
        Capacity("Pipeline-2", 2, (18, 544), 542e6, 6.45e9, 8.11e9),
        Capacity("Pipeline-4", 4, (36, 544), 1.05e9, 12.53e9, 15.21e9),
        Capacity("Pipeline-8", 8, (72, 512), 1.8e9, 24.62e9, 26.24e9),
    ),
    "Transformer": (
        Capacity("Naive-1", 1, (3,), 282.2e6, 11.7e9, 3.15e9),
        Capacity("Pipeline-1", 1, (13,), 785.8e6, 8.8e9, 6.4e9),
        Capacity("Pipeline-8", 8, (103,), 5.3e9, 59.5e9, 50.9e9),
        Capacity("Pipeline-32", 32, (415,), 21.0e9, 235.1e9, 199.9e9),
        Capacity("Pipeline-128", 128, (1663,), 83.9e9, 937.9e9, 796.1e9),
    ),
}
"""Table 1 [G]: AmoebaNet-D on accelerators of 8 GB, the Transformer on TPUv3 of 16 GB each."""

THROUGHPUT: Final[dict[str, dict[tuple[int, int], float]]] = {
    "AmoebaNet-D": {
        (2, 1): 1, (4, 1): 1.13, (8, 1): 1.38,
        (2, 4): 1.07, (4, 4): 1.26, (8, 4): 1.72,
        (2, 32): 1.21, (4, 32): 1.84, (8, 32): 3.48,
    },
    "Transformer": {
        (2, 1): 1, (4, 1): 1.07, (8, 1): 1.3,
        (2, 4): 1.7, (4, 4): 3.2, (8, 4): 4.8,
        (2, 32): 1.8, (4, 32): 3.4, (8, 32): 6.3,
    },
}  # fmt: skip
"""Table 2 [G]: normalized throughput on TPUs by (K, M), each model against its own K=2, M=1.

"Batch size was adjusted to fit memory if necessary": in which cells and to what, the paper does not say.
"""

THROUGHPUT_WITHOUT_NVLINK: Final[dict[str, dict[int, float]]] = {
    "AmoebaNet-D": {2: 1, 4: 1.7, 8: 2.7},
    "Transformer": {2: 1, 4: 1.8, 8: 3.3},
}
"""Table 3 [G]: normalized throughput by K at M=32 on GPUs without NVLink, each model against its own K=2.

AmoebaNet-D (18, 128) and a Transformer of 24 layers.
"""

RECOMPUTE_SHARE: Final = 0.23
"""The largest share of the total step time that recompute took [N, section 3.1]."""

IMBALANCE_SHARE: Final = 0.032
"""The share that imbalance between two partitions took [N, section 3.1]."""


class Transfer(NamedTuple):
    """Accuracy in percent on one data set, and the best before it where these notes quote it."""

    dataset: str
    accuracy: float
    previous_best: float | None = None


IMAGENET_TOP_1: Final = 84.4
IMAGENET_TOP_5: Final = 97.0
"""Image classification [G, N]: AmoebaNet-B (18, 512), 557M parameters, 480 x 480 pixels, 4 partitions.

Earlier versions of the paper say 84.3 for the first figure.
"""

IMAGENET_BEFORE: Final = 83.9
IMAGENET_PRIVATE_DATA: Final = 85.4
"""The best before, without and with additional private data: 85.4 is the footnote of table 4 [G]."""

TRANSFER: Final = (
    Transfer("CIFAR-10", 99.0),
    Transfer("CIFAR-100", 91.3),
    Transfer("Stanford Cars", 94.6, previous_best=94.8),
    Transfer("Oxford Pets", 95.9),
    Transfer("Food-101", 93.0),
    Transfer("FGVC Aircraft", 92.7, previous_best=92.9),
    Transfer("Birdsnap", 83.6),
)
"""The same model, trained further on other data sets [G, N]; a previous best only where it was not beaten."""


class Translation(NamedTuple):
    """One size of batch, in tokens, with the quality (BLEU) and the loss it led to, German to English."""

    tokens: float
    bleu: float
    loss: float


TRANSLATION: Final = (
    Translation(260e3, 30.92, 2.58),
    Translation(1e6, 31.86, 2.51),
    Translation(4e6, 32.71, 2.46),
)
"""Larger batches [G, N, section 5]: a standard Transformer Big on German-English, which needs no pipeline.

Not the experiment with one model of 6 billion parameters for 102 languages to English.
"""
