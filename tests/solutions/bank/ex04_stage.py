"""Exercise 04, a re-materialized stage."""

import numpy as np

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


class KeepsWhatLayersSave(Plain):
    def forward(self, m, x):
        self.kept[m] = []
        for layer in self.layers:
            x, saved = layer.forward(x)
            self.kept[m].append(saved)
        return x

    def backward(self, m, dy):
        return self.walk(dy, self.kept.pop(m))


class NeverFrees(Plain):
    def backward(self, m, dy):
        return self.walk(dy, self.again(self.kept[m]))


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


class Replaces(Plain):
    def walk(self, dy, saved):
        for i in reversed(range(len(self.layers))):
            dy, self.grads[i] = self.layers[i].backward(dy, saved[i])
        return dy


class ForgetsTheWeights(Plain):
    def walk(self, dy, saved):
        for layer, kept in zip(reversed(self.layers), reversed(saved), strict=True):
            dy = layer.input_gradient(dy, kept)
        return dy


class RecomputesTooSoon(Plain):
    def forward(self, m, x):
        y = super().forward(m, x)
        self.again(x)
        return y


class RecomputesForEachLayer(Plain):
    def backward(self, m, dy):
        x = self.kept.pop(m)
        for i in reversed(range(len(self.layers))):
            dy, grads = self.layers[i].backward(dy, self.again(x)[i])
            for name in grads:
                self.grads[i][name] += grads[name]
        return dy


class PutsAnActivationBehind(Plain):
    def forward(self, m, x):
        self.kept[m] = x
        for layer in self.layers[:-1]:
            x, _ = layer.forward(x)
        return np.maximum(self.layers[-1].forward(x)[0], 0)


class ReturnsNothing(Plain):
    def backward(self, m, dy):
        super().backward(m, dy)


class ReturnsSavedToo(Plain):
    def forward(self, m, x):
        return super().forward(m, x), self.kept[m]


class ReturnsWhatItWasGiven(Plain):
    def backward(self, m, dy):
        super().backward(m, dy)
        return dy


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


class KeepsUnderTheWrongNumber(Plain):
    def forward(self, m, x):
        y = super().forward(m, x)
        self.kept[m + 1] = self.kept.pop(m)
        return y


class SavesTheOutputs(Plain):
    """Believes that a layer's backward needs the layer's output."""

    def again(self, x):
        saved = []
        for layer in self.layers:
            x, kept = layer.forward(x)
            saved.append(tuple(np.resize(x, array.shape) for array in kept))
        return saved


# Not as decorators: a class travels with its decorators.
BANK.right(Plain)
BANK.right(Recursive)
BANK.wrong("keeps-more")(KeepsWhatLayersSave)
BANK.wrong("never-freed")(NeverFrees)
BANK.wrong("other-input")(RemembersOneInput)
BANK.wrong("not-added")(Replaces)
BANK.wrong("no-gradients")(ForgetsTheWeights)
BANK.wrong("twice-forward")(RecomputesTooSoon)
BANK.wrong("too-many-recomputes")(RecomputesForEachLayer)
BANK.wrong("other-output")(PutsAnActivationBehind)
BANK.wrong("no-array-backward")(ReturnsNothing)
BANK.wrong("no-array-forward")(ReturnsSavedToo)
BANK.wrong("other-shape")(ReturnsWhatItWasGiven)
BANK.wrong("kept-elsewhere")(KeepsInAGlobal)
BANK.wrong("key")(KeepsUnderTheWrongNumber)
BANK.wrong("other-gradient")(SavesTheOutputs)
