"""Counts on paper against PyTorch: weights, operations and stored tensors of real modules of the same shape."""

import pytest

from gpipe_edu.sizing import mlp, transformer
from tests.refusals import refusals

torch = pytest.importorskip("torch", reason="the counts are held against PyTorch")
from functorch.compile import aot_module, make_boxed_func, min_cut_rematerialization_partition  # noqa: E402
from torch import nn  # noqa: E402
from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from gpipe_edu.pytorch.ledger import Ledger  # noqa: E402

N, TOKENS, D, WORDS = 3, 64, 96, 200


class Block(nn.Module):
    """The decoder block that `transformer` describes, of PyTorch's own parts."""

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.wide, self.narrow = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        q, k, v = (
            part.view(N, TOKENS, 2, D // 2).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, dim=-1)
        )
        heads = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(N, TOKENS, D)
        x = x + self.out(heads)
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class GatedProduct(torch.autograd.Function):
    """One side of the gate times the other's SiLU in one kernel, which keeps its two inputs alone."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        share = torch.sigmoid(gate)
        return grad * up * share * (1 + gate * (1 - share)), grad * functional.silu(gate)


class Gated(nn.Module):
    """The block of Llama: queries share keys, a gated hidden layer, no biases."""

    def __init__(self, hidden, heads, shared_heads, product=GatedProduct.apply):
        super().__init__()
        self.product = product
        self.heads, self.shared_heads, narrow = heads, shared_heads, D * shared_heads // heads
        self.before, self.between = nn.RMSNorm(D), nn.RMSNorm(D)
        self.q, self.k, self.v = (nn.Linear(D, width, bias=False) for width in (D, narrow, narrow))
        self.out, self.narrow = nn.Linear(D, D, bias=False), nn.Linear(hidden, D, bias=False)
        self.gate, self.up = nn.Linear(D, hidden, bias=False), nn.Linear(D, hidden, bias=False)

    def forward(self, x):
        before = self.before(x)
        q, k, v = (
            project(before).view(N, TOKENS, heads, D // self.heads).transpose(1, 2)
            for project, heads in ((self.q, self.heads), (self.k, self.shared_heads), (self.v, self.shared_heads))
        )
        shared = self.heads != self.shared_heads
        heads = (
            functional.scaled_dot_product_attention(q, k, v, enable_gqa=shared).transpose(1, 2).reshape(N, TOKENS, D)
        )
        x = x + self.out(heads)
        between = self.between(x)
        return x + self.narrow(self.product(self.gate(between), self.up(between)))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.words = nn.LayerNorm(D), nn.Linear(D, WORDS, bias=False)

    def forward(self, x):
        words = self.words(self.norm(x)).flatten(0, 1)
        return functional.cross_entropy(words, torch.zeros(len(words), dtype=torch.long))


def stored_numbers(module, x, also_output):
    """What autograd saves besides the input x; the output too if the next layer will save it."""
    ledger = Ledger(module.parameters())
    ledger.add((0, 0), [x])
    before = ledger.held
    with ledger.watch((0, 0)):
        output = module(x)
    if also_output:
        ledger.add((0, 0), [output])
    return (ledger.held - before) / 4


def operations(module, x):
    # The fused attention of CPUs is not counted by PyTorch; the plain one does the same products.
    plain = sdpa_kernel(SDPBackend.MATH)
    with FlopCounterMode(display=False) as counter, torch.no_grad(), plain:
        module(x)
    return counter.get_total_flops()


@pytest.fixture
def model():
    return transformer(blocks=2, width=D, context=TOKENS, vocabulary=WORDS)


def test_a_blocks_weights_operations_and_stored_numbers_are_those_of_pytorch(model):
    block, x = Block(), torch.randn(N, TOKENS, D, requires_grad=True)
    paper = model.layers[1]
    assert paper.parameters == sum(weight.numel() for weight in block.parameters())
    assert operations(block, x) == N * paper.work
    # Norms and attention keep a few numbers per token on top, which the count leaves out.
    assert stored_numbers(block, x, also_output=True) == pytest.approx(N * paper.stored, rel=0.01)


@pytest.mark.parametrize("shared_heads", [2, 6])
def test_a_gated_block_too(shared_heads):
    model = transformer(1, D, TOKENS, WORDS, hidden=160, gated=True, heads=6, shared_heads=shared_heads)
    block, x, paper = Gated(160, 6, shared_heads), torch.randn(N, TOKENS, D, requires_grad=True), model.layers[1]
    assert paper.parameters == sum(weight.numel() for weight in block.parameters())
    assert operations(block, x) == N * paper.work
    if shared_heads == 6:  # the CPU's attention copies shared keys and values, a GPU's does not
        norms = 2 * TOKENS * D  # either RMSNorm keeps one number more than it has to, where it is not fused
        assert stored_numbers(block, x, also_output=True) == pytest.approx(N * (paper.stored + norms), rel=0.01)


def plain_product(gate, up):
    return functional.silu(gate) * up


def test_written_as_two_plain_operations_the_gate_stores_one_number_more_per_hidden_one():
    x, plain, fused = torch.randn(N, TOKENS, D, requires_grad=True), Gated(160, 6, 6, plain_product), Gated(160, 6, 6)
    more = stored_numbers(plain, x, also_output=True) - stored_numbers(fused, x, also_output=True)
    assert more == N * TOKENS * 160


def test_the_compiler_stores_as_much_of_a_gated_block():
    """What its forward hands to its backward besides weights: it fuses the gate's two operations by itself."""
    block, handed = Gated(160, 6, 6, plain_product), dict[StorageWeakRef, int]()

    def forward(graph, _):
        (outputs,) = next(node for node in graph.graph.nodes if node.op == "output").args
        for one in (node.meta["val"] for node in outputs[1:] if node.op != "placeholder"):
            if one.shape[0] in (N, N * TOKENS):
                handed[StorageWeakRef(one.untyped_storage())] = one.numel()
        return make_boxed_func(graph.forward)

    compiled = aot_module(
        block,
        fw_compiler=forward,
        bw_compiler=lambda graph, _: make_boxed_func(graph.forward),
        partition_fn=min_cut_rematerialization_partition,
    )
    output = compiled(torch.randn(N, TOKENS, D, requires_grad=True))
    model = transformer(1, D, TOKENS, WORDS, hidden=160, gated=True, heads=6)
    # A few numbers per token of norms and attention are on top, which the count leaves out.
    assert sum(handed.values()) + output.numel() == pytest.approx(N * model.layers[1].stored, rel=0.01)


def test_llama_s_gated_block_stores_17_times_what_it_hands_on():
    for hidden, shared_heads, width in ((14336, 8, 4096), (28672, 8, 8192)):
        heads = width // 128
        block = transformer(1, width, 8192, 10, hidden=hidden, gated=True, heads=heads, shared_heads=shared_heads)
        narrow = shared_heads / heads
        # Norms and sums 4, queries, keys and values, the heads' output 1, gate, up and their product.
        assert block.layers[1].stored / block.layers[1].output == 4 + 1 + 2 * narrow + 1 + 3 * 3.5


def test_stored_scores_are_those_of_the_formula():
    # 34 s b h + 5 a s^2 b bytes in 16 bit, Korthikanti et al. 2022; ours has no dropout masks, so 32.
    plain, scores = (transformer(1, D, TOKENS, WORDS, heads=6, fused=fused).layers[1] for fused in (True, False))
    assert 2 * plain.stored == 32 * TOKENS * D
    assert 2 * scores.stored == 32 * TOKENS * D + 5 * 6 * TOKENS**2
    assert 2 * scores.scores == 5 * 6 * TOKENS**2
    assert scores.scores_work == scores.weightless == plain.weightless == 4 * TOKENS**2 * D
    assert (plain.scores, plain.scores_work) == (0, 0)


def test_the_heads_too(model):
    head, x = Head(), torch.randn(N, TOKENS, D, requires_grad=True)
    paper = model.layers[-1]
    assert paper.parameters == sum(weight.numel() for weight in head.parameters())
    assert operations(head, x) == N * paper.work
    assert stored_numbers(head, x, also_output=False) == pytest.approx(N * paper.stored, rel=0.02)


def test_the_embedding_holds_words_and_positions(model):
    assert model.layers[0].parameters == (WORDS + TOKENS) * D
    assert len(model.layers) == 4
    assert model.inputs == TOKENS
    assert [layer.output for layer in model.layers] == [TOKENS * D] * 3 + [TOKENS * WORDS]


def test_an_mlps_counts_are_those_of_pytorch():
    paper = mlp([64, 96, 10])
    hidden, last = nn.Sequential(nn.Linear(64, 96), nn.Tanh()), nn.Linear(96, 10)
    x, y = torch.randn(N, 64, requires_grad=True), torch.randn(N, 96, requires_grad=True)

    def loss(x):
        return functional.cross_entropy(last(x), torch.zeros(N, dtype=torch.long))

    assert paper.parameters == sum(weight.numel() for part in (hidden, last) for weight in part.parameters())
    assert [operations(hidden, x), operations(last, y)] == [N * layer.work for layer in paper.layers]
    assert stored_numbers(hidden, x, also_output=True) == N * paper.layers[0].stored
    loss.parameters = last.parameters
    # The loss keeps its targets, whole numbers of 8 bytes, and a sum on top.
    assert stored_numbers(loss, y, also_output=False) == N * paper.layers[1].stored + 2 * N + 1


test_shapes_that_cannot_be_are_refused = refusals(
    (ValueError, "widths has 1 values; a layer needs two", lambda: mlp([64])),
    (ValueError, r"widths\[1\] is 0", lambda: mlp([64, 0])),
    (TypeError, r"widths\[1\] is 9.5", lambda: mlp([64, 9.5])),
    (ValueError, "blocks is 0", lambda: transformer(0, 8, 8, 8)),
    (TypeError, "context is '8'", lambda: transformer(1, 8, "8", 8)),
    (ValueError, "width is -8", lambda: transformer(1, -8, 8, 8)),
    (ValueError, "heads is 6 and shared_heads 4", lambda: transformer(1, 8, 8, 8, heads=6, shared_heads=4)),
    (ValueError, "hidden is 0", lambda: transformer(1, 8, 8, 8, hidden=0)),
    (ValueError, "vocabulary is 0", lambda: transformer(1, 8, 8, 0)),
)
