"""Exercise 04, a re-materialized stage."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu.reference.stage import Stage as Engine
from tests.solutions.bank import Bank

BANK = Bank("ex04/stage")


def zeros(layers):
    return [{name: np.zeros_like(value) for name, value in layer.params.items()} for layer in layers]


class Plain:
    def __init__(self, layers):
        self.layers, self.grads, self.kept = layers, zeros(layers), {}

    def forward(self, m, x):
        self.kept[m] = x
        for layer in self.layers:
            x, _ = layer.forward(x)
        return x

    def again(self, x):
        saved = []
        for layer in self.layers:
            x, kept = layer.forward(x)
            saved.append(kept)
        return saved

    def walk(self, dy, saved):
        for i in reversed(range(len(self.layers))):
            dy, grads = self.layers[i].backward(dy, saved[i])
            for name in grads:
                self.grads[i][name] = self.grads[i][name] + grads[name]
        return dy

    def backward(self, m, dy):
        return self.walk(dy, self.again(self.kept.pop(m)))


class Recursive:
    def __init__(self, layers):
        self.layers, self.grads, self.kept = layers, zeros(layers), {}

    def forward(self, m, x):
        self.kept[m] = x.copy()
        for layer in self.layers:
            x = layer.forward(x)[0]
        return x

    def backward(self, m, dy):
        def go(i, x):
            if i == len(self.layers):
                return dy
            y, saved = self.layers[i].forward(x)
            dx, grads = self.layers[i].backward(go(i + 1, y), saved)
            for name, value in grads.items():
                self.grads[i][name] += value
            return dx

        dx = go(0, self.kept[m])
        del self.kept[m]
        return dx


class KeepsAPile(Plain):
    def __init__(self, layers):
        self.layers, self.grads, self.kept = layers, zeros(layers), []

    def forward(self, m, x):
        self.kept.append(x)
        for layer in self.layers:
            x, _ = layer.forward(x)
        return x

    def backward(self, m, dy):
        return self.walk(dy, self.again(self.kept.pop()))


class LacksItsBackward(Plain):
    def backward(self, m, dy):
        raise NotImplementedError


class KeepsAQueue(KeepsAPile):
    def backward(self, m, dy):
        return self.walk(dy, self.again(self.kept.pop(0)))


class RemembersOneInput(Plain):
    def forward(self, m, x):
        self.x = x
        for layer in self.layers:
            x, _ = layer.forward(x)
        return x

    def backward(self, m, dy):
        if dy.shape[0] != self.x.shape[0]:
            self.x = self.x[: dy.shape[0]] if len(self.x) > len(dy) else np.pad(self.x, ((0, 1), (0, 0)))
        return self.walk(dy, self.again(self.x))


OUTSIDE = {}


class KeepsInAGlobal(Plain):
    def forward(self, m, x):
        OUTSIDE[id(self), m] = []
        for layer in self.layers:
            x, saved = layer.forward(x)
            OUTSIDE[id(self), m].append(saved)
        return x

    def backward(self, m, dy):
        return self.walk(dy, OUTSIDE.pop((id(self), m)))


@BANK.wrong("scaled")
class Averages(Plain):
    """Believes that a batch's gradient is the mean of its micro-batches' gradients."""

    def __init__(self, layers):
        super().__init__(layers)
        self.done = 0

    def backward(self, m, dy):
        means, self.grads = self.grads, zeros(self.layers)
        dx = super().backward(m, dy)
        self.done += 1
        for mean, new in zip(means, self.grads, strict=True):
            for name in new:
                mean[name] += (new[name] - mean[name]) / self.done
        self.grads = means
        return dx


class BorrowsTheEngines:
    def __init__(self, layers):
        self.layers, self.engine = layers, Engine(layers, lambda m: layers, keeps=lambda m: False)
        self.grads = self.engine.grads

    def forward(self, m, x):
        return self.engine.forward(m, x)

    def backward(self, m, dy):
        return self.engine.checkpointed_backward(m, dy)


@dataclass
class Rerun:
    """A layer that has run again, and can go back."""

    layer: Any
    saved: Any
    grads: dict

    def back(self, dy):
        dy, grads = self.layer.backward(dy, self.saved)
        for name, value in grads.items():
            self.grads[name] += value
        return dy


class RunsAgain:
    def __init__(self, layers):
        self.layers, self.grads, self.kept = layers, zeros(layers), {}

    def forward(self, m, x):
        self.kept[m] = x
        for layer in self.layers:
            x, _ = layer.forward(x)
        return x

    def backward(self, m, dy):
        x, reruns = self.kept.pop(m), []
        for layer, grads in zip(self.layers, self.grads, strict=True):
            x, saved = layer.forward(x)
            reruns.append(Rerun(layer, saved, grads))
        while reruns:
            dy = reruns.pop().back(dy)
        return dy


class Saving(Enum):
    NOTHING = 0
    EVERYTHING = 1


class Ran(NamedTuple):
    output: Any
    saved: list


class WithASwitch:
    def __init__(self, layers):
        self.layers, self.grads, self.kept = layers, zeros(layers), {}

    def run(self, x, saving):
        saved = []
        for layer in self.layers:
            x, one = layer.forward(x)
            if saving is Saving.EVERYTHING:
                saved.append(one)
        return Ran(x, saved)

    def forward(self, m, x):
        self.kept[m] = x
        return self.run(x, Saving.NOTHING).output

    def backward(self, m, dy):
        _, saved = self.run(self.kept.pop(m), Saving.EVERYTHING)
        for layer, one, total in zip(self.layers[::-1], saved[::-1], self.grads[::-1], strict=True):
            dy, grads = layer.backward(dy, one)
            for name in total:
                total[name] += grads[name]
        return dy


class RecomputesUpToEachLayer(Plain):
    """Has what only one layer saved in memory at a time, for many more runs."""

    def backward(self, m, dy):
        x = self.kept.pop(m)
        for i in reversed(range(len(self.layers))):
            h = x
            for layer in self.layers[: i + 1]:
                h, saved = layer.forward(h)
            dy, grads = self.layers[i].backward(dy, saved)
            for name in grads:
                self.grads[i][name] = self.grads[i][name] + grads[name]
        return dy


ARRAYS = {}


class FillsOneArray(Plain):
    """Saves the time of making arrays."""

    def backward(self, m, dy):
        dx = super().backward(m, dy)
        array = ARRAYS.setdefault(dx.shape, np.empty_like(dx))
        array[...] = dx
        return array


class KeepsTheFirstGradients(Plain):
    def backward(self, m, dy):
        before = [dict(grads) for grads in self.grads]
        dx = super().backward(m, dy)
        if any(np.any(value) for grads in before for value in grads.values()):
            self.grads = before
        return dx


# Not as decorators: a class travels with its decorators.
BANK.right(Plain)
BANK.right(Recursive)
BANK.right(RunsAgain)
BANK.right(WithASwitch)
BANK.wrong("other-input")(RemembersOneInput)
BANK.wrong("pile")(KeepsAPile)
BANK.wrong("only-forward")(LacksItsBackward)
BANK.wrong("queue")(KeepsAQueue)
BANK.wrong("kept-elsewhere")(KeepsInAGlobal)
BANK.wrong("ready-made")(BorrowsTheEngines)
BANK.wrong("too-many-recomputes")(RecomputesUpToEachLayer)
BANK.wrong("handed-out-again")(FillsOneArray)
BANK.wrong("only-first")(KeepsTheFirstGradients)

FORWARD = """        for layer in self.layers:
            x, _ = layer.forward(x)
        return x"""
HOARD = """        self.saved = getattr(self, "saved", [])
        for layer in self.layers:
            x, saved = layer.forward(x)
            self.saved.append(saved)
        return x"""
BACK = "self.walk(dy, self.again(self.kept.pop(m)))"
BANK.changed(
    "other-layer",
    "AddsFromTheFront",
    "self.grads[i][name] = self.grads[i][name] + grads[name]",
    "self.grads[-1 - i][name] = self.grads[-1 - i][name] + grads[name]",
)
BANK.changed("misfit", "WalksFromTheFirst", "in reversed(range(len(self.layers)))", "in range(len(self.layers))")
LAST_OUTPUT = FORWARD, FORWARD.replace("return x", "self.output = x\n        return x")
BANK.changed("never-freed", "KeepsItsLastOutput", *LAST_OUTPUT)
BANK.changed(
    "keeps-one", "KeepsItUntilTheBackward", *LAST_OUTPUT, f"return {BACK}", f"self.output = None\n        return {BACK}"
)
BANK.changed("rounded", "KeepsHalfTheDigits", "self.kept[m] = x", "self.kept[m] = x.astype(np.float32)")
BANK.changed("rounded", "KeepsAQuarterOfThem", "self.kept[m] = x", "self.kept[m] = x.astype(np.float16)")
BANK.changed(
    "overwritten",
    "EmptiesItsInput",
    "def backward(self, m, dy):\n        ",
    "def backward(self, m, dy):\n        x = self.kept[m]\n        self.kept[m] = x.copy()\n        x[:] = 0\n        ",
)
BANK.changed(
    "overwritten",
    "EmptiesTheGradient",
    "return self.walk(dy, self",
    "copy, dy[:] = dy.copy(), 0\n        return self.walk(copy, self",
)
BANK.changed(
    "saved-stays",
    "KeepsInTheLayers",
    "x, kept = layer.forward(x)",
    "x, kept = layer.forward(x)\n            layer.kept = kept",
)
BANK.changed("saved-stays", "KeepsInTheStage", "saved = []", "saved = self.saved = []")
BANK.changed("never-freed", "NeverFrees", "self.kept.pop(m)", "self.kept[m]")
BANK.changed("never-freed", "NeverFreesWhatLayersSave", FORWARD, HOARD)
BANK.changed("key", "KeepsUnderTheWrongNumber", "self.kept[m] = x", "self.kept[m + 1] = x")
BANK.changed("twice-forward", "RecomputesTooSoon", "self.kept[m] = x", "self.kept[m] = x\n        self.again(x)")
BANK.changed("no-array-backward", "ReturnsNothing", f"return {BACK}", BACK)
BANK.changed("no-array-forward", "ReturnsSavedToo", FORWARD, FORWARD + ", self.kept[m]")
BANK.changed("other-shape", "ReturnsWhatItWasGiven", f"return {BACK}", f"{BACK}\n        return dy")
BANK.changed("other-dx", "HalvesWhatItGivesBack", f"return {BACK}", f"return {BACK} / 2")
BANK.changed("other-dx", "GivesBackZeros", f"return {BACK}", f"return 0 * {BACK}")
BANK.changed("rounded", "GivesBackHalfTheDigits", f"return {BACK}", f"return {BACK}.astype(np.float32)")
BANK.changed(
    "only-small", "HasRoomForEight", "self.kept[m] = x", "self.kept[m % 8] = x", "kept.pop(m)", "kept.pop(m % 8)"
)
BANK.changed(
    "weights-changed",
    "LearnsAtOnce",
    "for name in grads:",
    "for name in grads:\n                self.layers[i].params[name] -= 1e-9 * grads[name]",
)
BANK.changed(
    "never-freed",
    "CountsMeans",
    "self.kept.pop(m)",
    "self.kept.setdefault(-1 - m, self.kept[m].mean(0)) is None or self.kept.pop(m)",
)
BANK.changed("other-output", "PutsAnActivationBehind", FORWARD, FORWARD.replace("return x", "return np.maximum(x, 0)"))
BANK.changed("not-added", "Replaces", "self.grads[i][name] + grads[name]", "grads[name]")
BANK.changed("no-gradients", "ForgetsTheWeights", "self.grads[i][name] = self.grads[i][name] + grads[name]", "pass")
BANK.changed("other-grads", "FlattensTheWeights", "self.grads[i][name] + grads[name]", "grads[name].ravel()")
BANK.changed(
    "keeps-more",
    "KeepsWhatLayersSave",
    "self.kept[m] = x\n" + FORWARD,
    "self.kept[m] = []\n"
    + FORWARD.replace("x, _ = layer.forward(x)", "x, saved = layer.forward(x); self.kept[m] += [saved]"),
    BACK,
    "self.walk(dy, self.kept.pop(m))",
)
# Believes that a layer's backward needs the layer's output.
BANK.changed(
    "other-gradient",
    "SavesTheOutputs",
    "saved.append(kept)",
    "saved.append(tuple(np.resize(x, array.shape) for array in kept))",
)
BANK.changed(
    "too-many-recomputes",
    "RecomputesForEachLayer",
    "saved[i])",
    "self.again(saved)[i])",
    BACK,
    "self.walk(dy, self.kept.pop(m))",
)
# Believes that micro-batch 0 begins a step, and so empties what is the optimizer's to empty.
BANK.changed(
    "second-mini-batch",
    "EmptiesTheGradients",
    "self.kept[m] = x",
    "self.kept[m] = x\n        if m == 0: self.grads = zeros(self.layers)",
)
