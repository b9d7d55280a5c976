"""Exercise 13, an optimizer step with its state divided. Most wrong ones are a right one but for a line."""

import os
import tempfile
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from tests.solutions.bank import Bank

BANK = Bank("ex13/zero1")


@BANK.right
def zero1_step(rank, D, weights, gradients, state, adam, send, receive):
    sums, new = list(gradients), list(weights)
    for t in range(1, D):
        p = (rank - t) % D
        send(sums[p])
        q = (p - 1) % D
        came = receive(sums[q])
        sums[q] = sums[q] + came
    mean = sums[rank] / D
    new[rank] = adam(weights[rank], mean, state)
    for t in range(D - 1):
        p = (rank - t) % D
        send(new[p])
        q = (p - 1) % D
        new[q] = receive(new[q])
    return new


@BANK.right
def in_place(rank, D, weights, gradients, state, adam, send, receive):
    for piece in gradients:
        piece /= D
    for t in range(D - 1):
        send(gradients[rank - 1 - t])
        gradients[rank - 2 - t] += receive(gradients[rank - 2 - t])
    weights[rank][:] = adam(weights[rank], gradients[rank], state)
    for t in range(D - 1):
        send(weights[rank - t])
        weights[rank - 1 - t][:] = receive(weights[rank - 1 - t])
    return weights


class What(Enum):
    ADD = 1
    TAKE = 2


class Round(NamedTuple):
    out: int
    into: int


@dataclass
class Links:
    rank: int
    D: int
    send: Any
    receive: Any

    def go_round(self, pieces, first, what):
        for t in range(self.D - 1):
            now = Round((first - t) % self.D, (first - t - 1) % self.D)
            self.send(pieces[now.out])
            came = self.receive(pieces[now.into])
            pieces[now.into] = came if what is What.TAKE else pieces[now.into] + came


@BANK.right
def with_helpers(rank, D, weights, gradients, state, adam, send, receive):
    links, sums, new = Links(rank, D, send, receive), list(gradients), list(weights)
    links.go_round(sums, rank - 1, What.ADD)
    new[rank] = adam(new[rank], np.divide(sums[rank], D), state=state)
    links.go_round(new, rank, What.TAKE)
    return tuple(new)


@BANK.right
def forwarding_what_came(rank, D, weights, gradients, state, adam, send, receive):
    """What is sent in a round is what the last one gave."""
    going = gradients[rank - 1]
    for t in range(D - 1):
        send(going)
        mine = gradients[(rank - 2 - t) % D]
        going = mine + receive(mine)
    going = adam(weights[rank], going / D, state)
    new = {rank: going}
    for t in range(D - 1):
        send(going)
        p = (rank - 1 - t) % D
        new[p] = going = receive(weights[p])
    return [new[p] for p in range(D)]


def sums_of(rank, D, pieces, send, receive):
    """The all-reduce."""
    sums = list(pieces)
    for half in range(2):
        for t in range(D - 1):
            send(sums[(rank + half - t) % D])
            p = (rank + half - t - 1) % D
            came = receive(sums[p])
            sums[p] = came if half else sums[p] + came
    return sums


@BANK.wrong("every-piece")
def all_reduce_then_adam(rank, D, weights, gradients, state, adam, send, receive):
    means = np.concatenate(sums_of(rank, D, gradients, send, receive)) / D
    new = adam(np.concatenate(weights), means, state)
    return np.split(new, np.cumsum([len(piece) for piece in weights])[:-1])


@BANK.wrong("every-piece")
def a_state_for_each_piece(rank, D, weights, gradients, state, adam, send, receive):
    sums = sums_of(rank, D, gradients, send, receive)
    return [adam(weights[p], sums[p] / D, state.setdefault(p, {})) for p in range(D)]


@BANK.wrong("too-much")
def all_reduce_and_all_gather(rank, D, weights, gradients, state, adam, send, receive):
    new = [np.zeros_like(piece) for piece in weights]
    sums = sums_of(rank, D, gradients, send, receive)
    new[rank] = adam(weights[rank], sums[rank] / D, state)
    return sums_of(rank, D, new, send, receive)


@BANK.wrong("whole-gradient")
def whole_gradients_go_round(rank, D, weights, gradients, state, adam, send, receive):
    going = np.concatenate(gradients)
    total = going.copy()
    for _ in range(D - 1):
        send(going)
        going = receive(going)
        total += going
    cuts, new = np.cumsum([len(piece) for piece in weights])[:-1], list(weights)
    new[rank] = adam(weights[rank], np.split(total, cuts)[rank] / D, state)
    for t in range(D - 1):
        send(new[(rank - t) % D])
        p = (rank - t - 1) % D
        new[p] = receive(new[p])
    return new


@BANK.wrong("collective")
def reduced_by_pytorch(rank, D, weights, gradients, state, adam, send, receive):
    mine = torch.from_numpy(np.concatenate(gradients))
    dist.all_reduce(mine)
    cuts, new = np.cumsum([len(piece) for piece in weights])[:-1], list(weights)
    new[rank] = adam(weights[rank], np.split(mine.numpy(), cuts)[rank] / D, state)
    for t in range(D - 1):
        send(new[(rank - t) % D])
        p = (rank - t - 1) % D
        new[p] = receive(new[p])
    return new


@BANK.wrong("collective")
def new_weights_by_broadcast(rank, D, weights, gradients, state, adam, send, receive):
    sums = list(gradients)
    for t in range(1, D):
        send(sums[(rank - t) % D])
        p = (rank - t - 1) % D
        sums[p] = sums[p] + receive(sums[p])
    new = [torch.from_numpy(piece.copy()) for piece in weights]
    new[rank] = torch.from_numpy(adam(weights[rank], sums[rank] / D, state))
    for p in range(D):
        dist.broadcast(new[p], p)
    return [one.numpy() for one in new]


def shared(rank, D, mine):
    """What each device has, through files."""
    folder = Path(tempfile.gettempdir(), f"zero-{os.getppid()}-{D}-{len(mine)}")
    folder.mkdir(exist_ok=True)
    np.save(folder / f"half{rank}.npy", np.array(mine))
    os.replace(folder / f"half{rank}.npy", folder / f"{rank}.npy")
    while not all((folder / f"{k}.npy").exists() for k in range(D)):
        time.sleep(0.01)
    return [np.load(folder / f"{k}.npy") for k in range(D)]


@BANK.wrong("no-message")
def through_files(rank, D, weights, gradients, state, adam, send, receive):
    mean = sum(shared(rank, D, gradients)) / D
    return [one[0] for one in shared(rank, D, [adam(weights[rank], mean[rank], state)])]


@BANK.wrong("other-neighbour")
def to_the_left(rank, D, weights, gradients, state, adam, send, receive):
    def swap(out, like):
        work = dist.isend(torch.from_numpy(out.copy()), (rank - 1) % D)
        came = torch.empty(len(like), dtype=torch.float64)
        dist.recv(came, (rank + 1) % D)
        work.wait()
        return came.numpy()

    for t in range(D - 1):
        p = (rank + 2 + t) % D
        gradients[p] = gradients[p] + swap(gradients[p - 1], gradients[p])
    weights[rank] = adam(weights[rank], gradients[rank] / D, state)
    for t in range(D - 1):
        p = (rank + 1 + t) % D
        weights[p] = swap(weights[p - 1], weights[p])
    return weights


@BANK.wrong("no-adam")
def plain_sgd(rank, D, weights, gradients, state, adam, send, receive):
    sums = sums_of(rank, D, gradients, send, receive)
    return [weight - 0.1 * one / D for weight, one in zip(weights, sums, strict=True)]


@BANK.right
def by_name(rank, D, weights, gradients, state, adam, send, receive):
    """Adam's arguments have the names that the docstring says."""

    def of(gradient, weight, state):
        return adam(gradient=gradient, weight=weight, state=state)

    return zero1_step(rank, D, weights, gradients, state, lambda w, g, s: of(g, w, s), send, receive)


STATES = {}


@BANK.wrong("other-state")
def states_beside_it(rank, D, weights, gradients, state, adam, send, receive):
    def with_mine(weight, gradient, _):
        return adam(weight, gradient, STATES.setdefault(rank, {}))

    return zero1_step(rank, D, weights, gradients, state, with_mine, send, receive)


@BANK.wrong("more-in-state")
def keeps_the_first_weights(rank, D, weights, gradients, state, adam, send, receive):
    weights = state.setdefault("weights", [piece.copy() for piece in weights])
    return zero1_step(rank, D, weights, gradients, state, adam, send, receive)


@BANK.wrong("second-step")
def adds_up_over_steps(rank, D, weights, gradients, state, adam, send, receive, total=[]):  # noqa: B006
    if not total:
        total += [0 * piece for piece in gradients]
    for one, piece in zip(total, gradients, strict=True):
        one += piece
    return zero1_step(rank, D, weights, list(total), state, adam, send, receive)


@BANK.wrong("no-return")
def forgets_to_return(rank, D, weights, gradients, state, adam, send, receive):
    weights[:] = zero1_step(rank, D, weights, gradients, state, adam, send, receive)


@BANK.wrong("gathers-gradients")
def gathers_gradients_after_adam(rank, D, weights, gradients, state, adam, send, receive):
    sums, new = list(gradients), list(weights)
    for t in range(1, D):
        send(sums[(rank - t) % D])
        p = (rank - t - 1) % D
        sums[p] = sums[p] + receive(sums[p])
    new[rank] = adam(weights[rank], sums[rank] / D, state)
    for t in range(D - 1):
        send(sums[(rank - t) % D])
        p = (rank - t - 1) % D
        sums[p] = new[p] = receive(sums[p])
    return new


SENDS = "send(sums[p])\n        q = (p - 1) % D\n        came = receive(sums[q])"
RECEIVES = "q = (p - 1) % D\n        came = receive(sums[q])\n        send(sums[p])"
CAME = "came = receive(sums[q])"
ADDED = "sums[q] = sums[q] + came"
FIRST = "for t in range(1, D):"
SECOND = "for t in range(D - 1):"
ADAM = "new[rank] = adam(weights[rank], mean, state)"
TAKEN = "new[q] = receive(new[q])"
MEAN = "mean = sums[rank] / D"
BANK.changed("receives-first", "receives_before", SENDS, RECEIVES)
BANK.changed("unreceived", "one_send_too_many", "return new", "send(new[rank])\n    return new")
BANK.changed("too-few-sends", "one_receive_too_many", "return new", "receive(new[0])\n    return new")
BANK.changed("dtype", "receives_float32", CAME, "came = receive(sums[q].astype(np.float32))")
BANK.changed("other-size", "receives_by_length", CAME, "came = receive(len(sums[q]))")
BANK.changed("not-averaged", "forgets_to_divide", MEAN, "mean = sums[rank]")
BANK.changed("divided-twice", "divides_twice", MEAN, "mean = sums[rank] / D / D")
BANK.changed("uneven", "divides_in_every_round", ADDED, "sums[q] = (sums[q] + came) / 2", MEAN, "mean = sums[rank]")
BANK.changed("own-gradient", "no_reduce_scatter", FIRST, "for t in ():")
BANK.changed("own-gradient", "uses_what_was_given", MEAN, "mean = gradients[rank] / D")
BANK.changed("own-gradient", "a_round_too_few", FIRST, "for t in range(1, D - 1):")
BANK.changed("some-missing", "sends_what_was_given", SENDS, SENDS.replace("send(sums[p])", "send(gradients[p])"))
BANK.changed(
    "other-gradient-piece", "as_in_the_ring", FIRST, "for t in range(D - 1):", MEAN, "mean = sums[rank + 1 - D] / D"
)
BANK.changed("other-piece", "updates_the_next", ADAM, "new[rank] = adam(weights[rank - 1], mean, state)")
BANK.changed("adam-twice", "updates_twice", ADAM, f"{ADAM}\n    {ADAM}")
BANK.changed("other-weights", "weights_scaled", ADAM, "new[rank] = adam(0.99 * weights[rank], mean, state)")
BANK.changed(
    "other-weights", "the_update_alone", ADAM, "new[rank] = weights[rank] + adam(0 * weights[rank], mean, state)"
)
BANK.changed("other-state", "a_dict_in_it", ADAM, 'new[rank] = adam(weights[rank], mean, state.setdefault("adam", {}))')
BANK.changed("state-touched", "counts_steps_too", MEAN, f"{MEAN}\n    state['t'] = state.get('t', 0) + 1")
BANK.changed("more-in-state", "keeps_weights_in_it", "return new", "state['weights'] = new\n    return new")
BANK.changed("more-in-state", "notes_its_rank_in_it", MEAN, f"state['piece'] = rank\n    {MEAN}")
BANK.changed("adam-exchanged", "gradient_first", ADAM, "new[rank] = adam(mean, weights[rank], state)")
BANK.changed("fresh-state", "an_empty_state", ADAM, "new[rank] = adam(weights[rank], mean, {})")
BANK.changed("fresh-state", "clears_the_state", "return new", "state.clear()\n    return new")
BANK.changed("other-gradient", "cuts_large_gradients", MEAN, "mean = np.clip(sums[rank] / D, -0.3, 0.3)")
BANK.changed("rounded", "keeps_float32", "return new", "return [one.astype(np.float32).astype(float) for one in new]")
BANK.changed("own-piece-old", "as_if_in_place", ADAM, "adam(weights[rank], mean, state)")
BANK.changed("own-piece-old", "gives_the_old_back", "return new", "return weights")
BANK.changed("no-gather", "forgets_the_second_half", SECOND, "for t in ():")
BANK.changed("some-old", "sends_the_old", "send(new[p])", "send(new[p] if t == 0 else weights[p])")
BANK.changed("some-old", "one_round_back", SECOND, "for t in range(min(1, D - 1)):")
BANK.changed("other-place", "takes_it_for_the_one_just_sent", TAKEN, "new[p] = receive(new[q])")
BANK.changed("other-place", "turned_round", "return new", "return new[1:] + new[:1]")
BANK.changed("weights-added", "adds_in_both_halves", TAKEN, "new[q] = new[q] + receive(new[q])")
BANK.changed("weights-added", "adam_as_a_step", ADAM, "new[rank] = weights[rank] + adam(weights[rank], mean, state)")
BANK.changed("weights-averaged", "meets_half_way", TAKEN, "new[q] = (new[q] + receive(new[q])) / 2")
BANK.changed("other-divisor", "mean_of_two", MEAN, "mean = sums[rank] / 2")
BANK.changed("wrong-weights", "decays_by_the_way", "return new", "return [0.99 * one for one in new]")
BANK.changed("not-pieces", "one_array", "return new", "return np.concatenate(new)")
BANK.changed("not-pieces", "only_the_own_piece", "return new", "return new[rank]")
BANK.changed("other-lengths", "rows", "return new", "return [one[None] for one in new]")
BANK.changed("unequal-pieces", "all_as_long_as_the_first", CAME, "came = receive(sums[0])")
BANK.changed("one-device", "always_one_round", SECOND, "for t in range(max(1, D - 1)):")


@BANK.wrong("no-weights")
def sends_what_has_changed(rank, D, weights, gradients, state, adam, send, receive):
    for t in range(D - 1):
        p = (rank - 1 - t) % D
        send(gradients[p])
        gradients[p - 1] = gradients[p - 1] + receive(gradients[p - 1])
    changes = [0 * weight for weight in weights]
    changes[rank] = adam(weights[rank], gradients[rank] / D, state) - weights[rank]
    for t in range(D - 1):
        p = (rank - t) % D
        send(changes[p])
        changes[p - 1] = receive(changes[p - 1])
    return [weight + change for weight, change in zip(weights, changes, strict=True)]
