"""Exercise 11, the two halves of a block's backward. Most wrong answers are one line away from a right one."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu import reference as ref
from tests.solutions.bank import Bank

BANK = Bank("ex11/block")


def mean(a):
    return a.mean(axis=1, keepdims=True)


@BANK.right
class Block:
    def __init__(self, params):
        self.params = params

    def forward(self, x):
        w = self.params
        spread = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
        x_hat = (x - x.mean(axis=1, keepdims=True)) / spread
        u = x_hat * w["scale"] + w["shift"]
        t = np.tanh(u @ w["W1"] + w["b1"])
        return x + t @ w["W2"] + w["b2"], (x_hat, spread, u, t)

    def input_gradient(self, dy, saved):
        w, (x_hat, spread, u, t) = self.params, saved
        dt = dy @ w["W2"].T
        dz = dt * (1 - t**2)
        du = dz @ w["W1"].T
        d = du * w["scale"]
        dx = (d - mean(d) - x_hat * mean(d * x_hat)) / spread
        dx = dx + dy
        return dx, (dy, dz, du, x_hat, u, t)

    def weight_gradient(self, left):
        dy, dz, du, x_hat, u, t = left
        found = {}
        found["scale"] = (du * x_hat).sum(axis=0)
        found["shift"] = du.sum(axis=0)
        found["W1"] = u.T @ dz
        found["b1"] = dz.sum(axis=0)
        found["W2"] = t.T @ dy
        found["b2"] = dy.sum(axis=0)
        return found


changed = BANK.changed

# I
changed("no-residual", "forgets_the_way_around", "dx = dx + dy", "dx = dx + 0")
changed("only-residual", "the_way_around_only", "dx = dx + dy", "dx = dy.copy()")
changed("norm-left-out", "ends_in_front_of_the_norm", "dx = dx + dy", "dx = du + dy")
changed("residual-in-norm", "all_through_the_norm", "d = du *", "d = dy + du *", "dx = dx + dy", "dx = dx + 0")
changed("frozen-statistics", "mean_and_spread_are_constants", "(d - mean(d) - x_hat * mean(d * x_hat))", "d")
changed("frozen-mean", "only_the_spread_moves", "d - mean(d) - x_hat", "d - x_hat")
changed("frozen-spread", "only_the_mean_moves", " - x_hat * mean(d * x_hat)", "")
changed("no-scale", "forgets_the_scale", 'd = du * w["scale"]', "d = du")
changed("no-spread", "forgets_to_divide", ") / spread\n        dx", ") / 1\n        dx")
changed("no-spread", "multiplies_by_the_spread", ") / spread\n        dx", ") * spread\n        dx")
changed(
    "over-samples",
    "means_of_batch_norm",
    "d - mean(d) - x_hat * mean(d * x_hat)",
    "d - d.mean(axis=0) - x_hat * (d * x_hat).mean(axis=0)",
)
changed("no-tanh", "forgets_the_slope", "dt * (1 - t**2)", "dt")
changed("tanh-slope", "slope_at_the_output", "(1 - t**2)", "(1 - np.tanh(t) ** 2)")
changed("tanh-slope", "slope_without_the_square", "(1 - t**2)", "(1 - t)")
changed("other-dx", "a_sign_too_many", "- x_hat * mean", "+ x_hat * mean")
changed("other-dx", "half_of_the_features", "mean(d) -", "mean(d) / 2 -")
changed("rounded", "single_precision", "return dx,", "return dx.astype(np.float32),")
changed("dx-form", "summed_over_samples", "return dx,", "return dx.sum(axis=0),")
changed("overwritten", "adds_into_dy", "dx = dx + dy", "dy += dx\n        dx = dy")
changed(
    "overwritten",
    "centers_x_in_place",
    "x_hat = (x - x.mean(axis=1, keepdims=True)) / spread",
    "kept = x.copy()\n        x -= x.mean(axis=1, keepdims=True)\n        x_hat = x / spread",
    "return x + t @",
    "return kept + t @",
)
changed("spoilt", "squares_t_in_place", "dz = dt * (1 - t**2)", "t *= t\n        dz = dt * (1 - t)")
changed(
    "spoilt",
    "empties_what_was_saved",
    "(x_hat, spread, u, t)\n\n",
    "[x_hat, spread, u, t]\n\n",
    "dt = dy @",
    "saved.clear()\n        dt = dy @",
)
changed("over-everything", "one_mean_for_all_samples", "mean(d * x_hat)) / spread", "(d * x_hat).mean()) / spread")
changed(
    "over-everything",
    "two_means_for_all_samples",
    "mean(d) - x_hat * mean(d * x_hat)",
    "d.mean() - x_hat * (d * x_hat).mean()",
)
changed("one-less", "divides_by_the_rest", "d - mean(d) -", "d - d.sum(axis=1, keepdims=True) / (d.shape[1] - 1) -")
changed(
    "pair-exchanged", "left_comes_first", "return dx, (dy, dz, du, x_hat, u, t)", "return (dy, dz, du, x_hat, u, t), dx"
)
changed("not-a-pair", "gives_dx_alone", "return dx, (dy, dz, du, x_hat, u, t)", "return dx")
changed("other-output", "takes_the_mean_away_twice", "return x + t @", "return x - x.mean(axis=1, keepdims=True) + t @")
changed("error", "forgets_a_transpose", 'dy @ w["W2"].T', 'dy @ w["W2"]')

# W
changed("not-a-dict", "a_list_in_order", "return found", "return list(found.values())")
changed("not-a-dict", "forgets_to_return", "return found", "self.found = found")
changed("names", "leaves_biases_out", 'found["b2"] = dy.sum(axis=0)', "")
changed("not-summed", "a_bias_for_each_sample", 'found["b1"] = dz.sum(axis=0)', 'found["b1"] = dz')
changed("not-summed", "a_scale_for_each_sample", "(du * x_hat).sum(axis=0)", "du * x_hat")
changed("transposed", "outputs_first", "u.T @ dz", "dz.T @ u")
changed("other-shape", "bias_as_a_number", "dz.sum(axis=0)", "dz.sum()")
changed("other-shape", "no_axis_of_one", "dz.sum(axis=0)", "dz.sum(axis=0).squeeze()")
changed("dx-form", "a_row_of_one_sample", "return dx,", "return dx.squeeze(),")
changed("other-shape", "bias_as_a_row", "dz.sum(axis=0)", "dz.sum(axis=0, keepdims=True)")
changed("no-gradient", "shift_learns_nothing", "= du.sum(axis=0)", "= np.zeros(du.shape[1])")
changed("mean-over-samples", "averages", "u.T @ dz", "u.T @ dz / len(u)")
changed("mean-over-samples", "averages_a_bias", "dz.sum(axis=0)", "dz.mean(axis=0)")
changed("dy-for-du", "shift_as_b2", "= du.sum(axis=0)", "= dy.sum(axis=0)")
changed("dy-for-du", "scale_from_dy", "(du * x_hat).sum", "(dy * x_hat).sum")
changed("scale-and-shift", "scale_as_shift", "(du * x_hat).sum(axis=0)", "du.sum(axis=0)")
changed("scale-from-output", "scale_times_output", "(du * x_hat).sum", "(du * u).sum")
changed(
    "scale-from-input",
    "scale_times_input",
    "spread, u, t)\n\n",
    "spread, u, t, x)\n\n",
    "u, t) = self.params",
    "u, t, x) = self.params",
    "x_hat, u, t)\n",
    "x_hat, u, t, x)\n",
    "x_hat, u, t = left",
    "x_hat, u, t, x = left",
    "du * x_hat)",
    "du * x)",
)
changed(
    "input-of-norm",
    "input_of_the_block",
    "spread, u, t)\n\n",
    "spread, u, t, x)\n\n",
    "u, t) = self.params",
    "u, t, x) = self.params",
    "x_hat, u, t)\n",
    "x_hat, u, t, x)\n",
    "x_hat, u, t = left",
    "x_hat, u, t, x = left",
    "u.T @ dz",
    "x.T @ dz",
)
changed("without-scale-and-shift", "input_before_the_scale", "u.T @ dz", "x_hat.T @ dz")
changed("d-for-du", "leaves_d", "(dy, dz, du", "(dy, dz, d")
changed("d-for-du", "scales_du_in_place", 'd = du * w["scale"]', 'd = du\n        d *= w["scale"]')
changed(
    "d-for-du",
    "shift_by_d",
    "(dy, dz, du, x_hat, u, t)",
    "(dy, dz, (du, d), x_hat, u, t)",
    "found = {}",
    "du, d = du\n        found = {}",
    "= du.sum(axis=0)",
    "= d.sum(axis=0)",
)
changed("behind-tanh", "gradient_behind_tanh", "(dy, dz, du", "(dy, dt, du")
changed(
    "before-tanh",
    "saves_what_went_into_tanh",
    "u, t)\n\n    def input",
    "u, t, u @ w['W1'] + w['b1'])\n\n    def input",
    "u, t) = self.params",
    "u, t, z) = self.params",
    "x_hat, u, t)\n",
    "x_hat, u, z)\n",
)
changed("dx-for-dy", "leaves_dx", "(dy, dz, du", "(dx, dz, du")
changed("other-gradient", "subtracts_the_mean", "u.T @ dz", "(u - u.mean(axis=0)).T @ dz")

changed(
    "zero-scale",
    "divides_d_by_the_scale",
    "(dy, dz, du, x_hat",
    "(dy, dz, d, x_hat",
    "= left",
    '= left\n        du = du / self.params["scale"]',
)
changed(
    "zero-scale",
    "x_hat_back_from_u",
    "(dy, dz, du, x_hat, u, t)",
    "(dy, dz, du, u, t)",
    "dy, dz, du, x_hat, u, t = left",
    'dy, dz, du, u, t = left\n        x_hat = (u - self.params["shift"]) / self.params["scale"]',
)
changed(
    "old-weights",
    "transposes_once",
    "self.params = params",
    'self.params = params\n        self.W1T, self.W2T = params["W1"].T.copy(), params["W2"].T.copy()',
    'w["W2"].T',
    "self.W2T",
    'w["W1"].T',
    "self.W1T",
)
changed(
    "updated",
    "steps_in_w",
    "return found",
    "for name in found:\n            self.params[name] = self.params[name] - 0.1 * found[name]\n        return found",
)

# apart, and one micro-batch beside another
changed(
    "in-I", "multiplies_in_I", "x_hat, u, t)\n", "x_hat, u.T @ dz, t)\n", "u.T @ dz\n        found", "u\n        found"
)
changed(
    "in-I",
    "all_of_it_in_I",
    "return dx, (dy, dz, du, x_hat, u, t)",
    "return dx, self.both(dy, dz, du, x_hat, u, t)",
    "def weight_gradient(self, left):",
    "def weight_gradient(self, left):\n        return left\n\n    def both(self, *left):",
)
changed(
    "small-in-I",
    "biases_in_I",
    "(dy, dz, du, x_hat, u, t)",
    "(dy, dz, du, x_hat, u, t, dz.sum(axis=0), dy.sum(axis=0))",
    "dy, dz, du, x_hat, u, t = left",
    "dy, dz, du, x_hat, u, t, b1, b2 = left",
    "= dz.sum(axis=0)",
    "= b1",
    "= dy.sum(axis=0)",
    "= b2",
)
changed("spoilt", "multiplies_in_place", "(du * x_hat).sum(axis=0)", "np.multiply(du, x_hat, out=x_hat).sum(axis=0)")
changed(
    "spoilt",
    "takes_it_out_of_left",
    "return dx, (dy, dz, du, x_hat, u, t)",
    "return dx, [dy, dz, du, x_hat, u, t]",
    "dy, dz, du, x_hat, u, t = left",
    "dy, dz, du, x_hat, u, t = (left.pop(0) for _ in range(6))",
)
changed(
    "kept",
    "a_number_for_each_micro_batch",
    "return dx, (dy, dz, du, x_hat, u, t)",
    """if not hasattr(self, "waiting"):
            self.waiting = {}
        self.waiting[id(dx)] = dy, dz, du, x_hat, u, t
        return dx, id(dx)""",
    "u, t = left",
    "u, t = self.waiting.pop(left)",
)
changed("kept", "for_whoever_debugs", "return found", "self.last = found\n        return found")
changed(
    "again",
    "walks_back_once_more",
    "x_hat, u, t)\n\n    def weight",
    "x_hat, u, t)[::5] + (x_hat, u)\n\n    def weight",
    "dy, dz, du, x_hat, u, t = left",
    'w, (dy, t, x_hat, u) = self.params, left\n        dz = (dy @ w["W2"].T) * (1 - t**2)\n        du = dz @ w["W1"].T',
)
changed(
    "again",
    "carries_the_matrices",
    "(dy, dz, du, x_hat, u, t)",
    '(dy, x_hat, u, t, w["W1"], w["W2"])',
    "dy, dz, du, x_hat, u, t = left",
    "dy, x_hat, u, t, W1, W2 = left\n        dz = (dy @ W2.T) * (1 - t**2)\n        du = dz @ W1.T",
)
changed(
    "one-at-a-time",
    "keeps_it_in_the_block",
    "return dx, (dy,",
    "self.last = (dy,",
    "x_hat, u, t)\n\n    def weight",
    "x_hat, u, t)\n        return dx, ()\n\n    def weight",
    "u, t = left",
    "u, t = self.last",
)
changed(
    "one-at-a-time",
    "adds_up_in_the_block",
    "return found",
    "self.sum = {n: getattr(self, 'sum', {}).get(n, 0) + found[n] for n in found}\n        return self.sum",
)


@BANK.wrong("left-elsewhere")
class KeepsAListInTheClass(Block):
    """And leaves the place in it."""

    waiting = []  # noqa: RUF012

    def input_gradient(self, dy, saved):
        dx, left = super().input_gradient(dy, saved)
        self.waiting.append(left)
        return dx, len(self.waiting) - 1

    def weight_gradient(self, left):
        return super().weight_gradient(self.waiting[left])


@BANK.wrong("left-elsewhere")
class LeavesAGenerator(Block):
    """Whose first item W takes."""

    def input_gradient(self, dy, saved):
        dx, left = super().input_gradient(dy, saved)
        return dx, (one for one in [left])

    def weight_gradient(self, left):
        return super().weight_gradient(next(left))


@BANK.wrong("ready-made")
class OfTheEnginesLayers(Block):
    """Which have both halves already."""

    def weight_gradient(self, left):
        dy, dz, du, x_hat, u, t = left
        first, second = ref.Linear(*self.params["W1"].shape), ref.Linear(*self.params["W2"].shape)
        one, two = first.weight_gradient(dz, (u,)), second.weight_gradient(dy, (t,))
        found = {"W1": one["weight"], "b1": one["bias"], "W2": two["weight"], "b2": two["bias"]}
        return found | {"scale": (du * x_hat).sum(axis=0), "shift": du.sum(axis=0)}


class Linear(NamedTuple):
    weight: Any
    bias: Any

    def __call__(self, x):
        return x @ self.weight + self.bias

    def I(self, dy):  # noqa: E743
        return dy @ self.weight.T

    @staticmethod
    def W(x, dy):
        return x.T @ dy, dy.sum(axis=0)


@dataclass
class Saved:
    x_hat: Any
    spread: Any
    t: Any


class Around(Enum):
    EPSILON = 1e-5


@BANK.right
class OfParts:
    """W's inputs in a list, u computed again from x_hat, which costs no matrix product."""

    def __init__(self, params):
        self.params = params

    @property
    def linears(self):
        return [Linear(self.params[f"W{i}"], self.params[f"b{i}"]) for i in (1, 2)]

    def scaled(self, x_hat):
        return self.params["scale"] * x_hat + self.params["shift"]

    def forward(self, x):
        first, second = self.linears
        middle = x - mean(x)
        spread = (mean(middle**2) + Around.EPSILON.value) ** 0.5
        t = np.tanh(first(self.scaled(middle / spread)))
        return x + second(t), Saved(middle / spread, spread, t)

    def input_gradient(self, dy, saved):
        first, second = self.linears
        dz = second.I(dy) * (1 - saved.t) * (1 + saved.t)
        du = first.I(dz)
        d = du * self.params["scale"]
        d = d - mean(d)
        return [dy + (d - saved.x_hat * mean(d * saved.x_hat)) / saved.spread, [saved, dy, dz, du]]

    def weight_gradient(self, left):
        saved, dy, dz, du = left
        first, second = Linear.W(self.scaled(saved.x_hat), dz), Linear.W(saved.t, dy)
        return {
            "W2": second[0],
            "b2": second[1],
            "W1": first[0],
            "b1": first[1],
            "shift": np.ones(len(du)) @ du,
            "scale": np.einsum("nh,nh->h", du, saved.x_hat),
        }


@BANK.right
class Postponed(Block):
    """`left` is a function that has all it needs."""

    def input_gradient(self, dy, saved):
        dx, (_, dz, du, x_hat, u, t) = super().input_gradient(dy, saved)

        def later():
            ones = np.ones(len(dy))
            return {
                "scale": ones @ (du * x_hat),
                "shift": ones @ du,
                "W1": np.dot(u.T, dz),
                "b1": ones @ dz,
                "W2": np.dot(t.T, dy),
                "b2": ones @ dy,
            }

        return dx, later

    def weight_gradient(self, left):
        return left()


@BANK.right
class ByPartial(Block):
    """Everything in one dict; the norm's gradient by its matrix, sample by sample."""

    def input_gradient(self, dy, saved):
        x_hat, spread, u, t = saved
        dz = np.einsum("nh,fh->nf", dy, self.params["W2"]) * (1 - t * t)
        du = np.einsum("nf,hf->nh", dz, self.params["W1"])
        h = dy.shape[1]
        dx = dy.copy()
        for row, (one, s, d) in enumerate(zip(x_hat, spread[:, 0], du * self.params["scale"], strict=True)):
            dx[row] += (np.eye(h) - 1 / h - np.outer(one, one) / h) @ d / s
        return dx, {"dy": dy, "dz": dz, "du": du, "x_hat": x_hat, "u": u, "t": t}

    def weight_gradient(self, left):
        sums = partial(np.sum, axis=0)
        found = {"scale": sums(left["du"] * left["x_hat"]), "shift": sums(left["du"])}
        found |= {"W1": left["u"].T.dot(left["dz"]), "b1": sums(left["dz"])}
        return found | {"W2": left["t"].T.dot(left["dy"]), "b2": sums(left["dy"])}


@BANK.wrong("given-again")
class WritesIntoOneBuffer(Block):
    """Made once, and given back by each W."""

    def __init__(self, params):
        super().__init__(params)
        self.buffer = {name: np.empty_like(value) for name, value in params.items()}

    def weight_gradient(self, left):
        for name, gradient in super().weight_gradient(left).items():
            self.buffer[name][...] = gradient
        return self.buffer


@BANK.wrong("only-I")
class LacksW(Block):
    def weight_gradient(self, left):
        raise NotImplementedError


@BANK.wrong("only-W")
class LacksI(Block):
    def input_gradient(self, dy, saved):
        raise NotImplementedError


@BANK.wrong("no-residual")
class LacksWAndTheWayAround(Block):
    def input_gradient(self, dy, saved):
        dx, left = super().input_gradient(dy, saved)
        return dx - dy, left

    def weight_gradient(self, left):
        raise NotImplementedError
