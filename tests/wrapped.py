"""Weights that wrap others: 8-bit numbers and their scales, which read as one weight of 64 bits."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map


class Eight(torch.Tensor):
    """It has no memory of its own."""

    @staticmethod
    def __new__(cls, numbers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=scale.dtype, device=numbers.device)

    def __init__(self, numbers, scale):
        self.numbers, self.scale = numbers, scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].numbers, args[0].scale)
        whole = tree_map(lambda one: one.numbers * one.scale if isinstance(one, cls) else one, (args, kwargs or {}))
        return func(*whole[0], **whole[1])


class EightOfParts(Eight):
    """It says what it wraps, and stays what it is when it is copied or moved."""

    def __tensor_flatten__(self):
        return ["numbers", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return EightOfParts(parts["numbers"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        aten = torch.ops.aten
        if func in (aten.clone.default, aten._to_copy.default) and not (kwargs or {}).get("dtype"):
            return cls(*(func(part, **(kwargs or {})) for part in (args[0].numbers, args[0].scale)))
        return super().__torch_dispatch__(func, types, args, kwargs)


class EightBitLinear(nn.Module):
    """A frozen weight of 8 bits, and one beside it that trains, as adapters do."""

    def __init__(self, kind, width=5):
        super().__init__()
        self.weight = nn.Parameter(
            kind(torch.randint(-9, 9, (width, width), dtype=torch.int8), torch.rand(width, 1).double() / 9),
            requires_grad=False,
        )
        self.beside = nn.Parameter(torch.randn(width, width).double() / 9)

    def forward(self, x):
        return F.linear(x, self.weight) + F.linear(x, self.beside)


def net(kind):
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(3) for layer in (EightBitLinear(kind), nn.Tanh())))
