"""Exercise 13, an all-reduce in a ring. Most wrong ones are a right one but for a line."""

import os
import tempfile
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from tests.solutions.bank import Bank

BANK = Bank("ex13/ring")


@BANK.right
def ring_all_reduce(rank, D, pieces, send, receive):
    sums = list(pieces)
    for step in range(D - 1):
        p = (rank - step) % D
        send(sums[p])
        q = (p - 1) % D
        came = receive(sums[q])
        sums[q] = sums[q] + came
    for step in range(D - 1):
        p = (rank + 1 - step) % D
        send(sums[p])
        q = (p - 1) % D
        sums[q] = receive(sums[q])
    return sums


@BANK.right
def in_place(rank, D, pieces, send, receive):
    """Device k ends with piece k, and the pieces are overwritten."""
    turn = rank - 1
    for _ in range(D - 1):
        send(pieces[turn % D])
        turn -= 1
        pieces[turn % D] += receive(pieces[turn % D])
    for _ in range(D - 1):
        send(pieces[turn % D])
        turn -= 1
        pieces[turn % D][:] = receive(pieces[turn % D])
    return tuple(pieces)


class Half(Enum):
    REDUCE = "add what comes"
    GATHER = "take what comes"


class Move(NamedTuple):
    out: int
    into: int


@dataclass
class Ring:
    rank: int
    D: int
    held: list = field(default_factory=list)

    def moves(self, half):
        first = self.rank + (half is Half.GATHER)
        return [Move((first - t) % self.D, (first - t - 1) % self.D) for t in range(self.D - 1)]


@BANK.right
def with_helpers(rank, D, pieces, send, receive):
    ring = Ring(rank, D, [piece.copy() for piece in pieces])
    for half in Half:
        for move in ring.moves(half):
            send(ring.held[move.out])
            came = receive(ring.held[move.into])
            ring.held[move.into] = came if half is Half.GATHER else came + ring.held[move.into]
    return ring.held


@BANK.right
def forwarding_what_came(rank, D, pieces, send, receive):
    """What is sent in a round is what the last one gave."""
    sums = {}
    going, number = pieces[rank], rank
    for t in range(2 * (D - 1)):
        send(going)
        number = (number - 1) % D
        going = receive(pieces[number])
        if t < D - 1:
            going = going + pieces[number]
        if t >= D - 2:
            sums[number] = going
    if D == 1:
        return pieces
    return (sums[p] for p in range(D))


@BANK.wrong("collective")
def all_reduced_by_pytorch(rank, D, pieces, send, receive):
    sums = [torch.from_numpy(piece.copy()) for piece in pieces]
    for one in sums:
        dist.all_reduce(one)
    return [one.numpy() for one in sums]


@BANK.wrong("collective")
def gathered_by_pytorch(rank, D, pieces, send, receive):
    sums = []
    for piece in pieces:
        found = [torch.empty(len(piece), dtype=torch.float64) for _ in range(D)]
        dist.all_gather(found, torch.from_numpy(piece))
        sums.append(sum(found).numpy())
    return sums


@BANK.wrong("whole-gradient")
def whole_gradients_go_round(rank, D, pieces, send, receive):
    mine = np.concatenate(pieces)
    total, going = mine.copy(), mine
    for _ in range(D - 1):
        send(going)
        going = receive(mine)
        total += going
    return np.split(total, np.cumsum([len(piece) for piece in pieces])[:-1])


@BANK.wrong("whole-gradient")
def along_a_chain_and_back_round(rank, D, pieces, send, receive):
    mine = np.concatenate(pieces)
    total = mine if rank == 0 else mine + receive(mine)
    if D > 1:
        if rank < D - 1:
            send(total)
            total = receive(mine)
        if rank != D - 2:
            send(total)
    return np.split(total, np.cumsum([len(piece) for piece in pieces])[:-1])


@BANK.wrong("whole-gradient")
def sends_all_and_receives_a_piece(rank, D, pieces, send, receive):
    for step in range(D - 1):
        send(np.concatenate(pieces))
        p = (rank - step - 1) % D
        pieces[p] += receive(pieces[p])
    return pieces


@BANK.wrong("too-much")
def each_piece_round_by_itself(rank, D, pieces, send, receive):
    sums = []
    for piece in pieces:
        total, going = piece.copy(), piece
        for _ in range(D - 1):
            send(going)
            going = receive(piece)
            total += going
        sums.append(total)
    return sums


@BANK.wrong("too-much")
def a_number_with_each_piece(rank, D, pieces, send, receive):
    for half in range(2):
        for step in range(D - 1):
            p = (rank + half - step) % D
            send(np.array([p]))
            send(pieces[p])
            q = int(receive(np.array([0]))[0])
            came = receive(pieces[q])
            pieces[q] = came if half else pieces[q] + came
    return pieces


@BANK.wrong("no-message")
def through_files(rank, D, pieces, send, receive):
    folder = Path(tempfile.gettempdir(), f"ring-{os.getppid()}-{D}")
    folder.mkdir(exist_ok=True)
    np.save(folder / f"half{rank}.npy", np.array(pieces))
    os.replace(folder / f"half{rank}.npy", folder / f"{rank}.npy")
    while not all((folder / f"{k}.npy").exists() for k in range(D)):
        time.sleep(0.01)
    return list(sum(np.load(folder / f"{k}.npy") for k in range(D)))


@BANK.wrong("other-neighbour")
def to_the_left(rank, D, pieces, send, receive):
    for half in range(2):
        for step in range(D - 1):
            p = (rank - half + step) % D
            work = dist.isend(torch.from_numpy(pieces[p].copy()), (rank - 1) % D)
            q = (p + 1) % D
            came = torch.empty(len(pieces[q]), dtype=torch.float64)
            dist.recv(came, (rank + 1) % D)
            work.wait()
            pieces[q] = came.numpy() if half else pieces[q] + came.numpy()
    return pieces


@BANK.wrong("second-call")
def adds_to_what_was_there(rank, D, pieces, send, receive, total=[]):  # noqa: B006
    sums = ring_all_reduce(rank, D, pieces, send, receive)
    if len(total) == len(sums):
        sums = [a + b for a, b in zip(total, sums, strict=True)]
    total[:] = sums
    return sums


@BANK.wrong("second-call")
def one_list_for_all_calls(rank, D, pieces, send, receive, sums=[]):  # noqa: B006
    if not sums:
        sums += [piece.copy() for piece in pieces]
    for mine, piece in zip(sums, ring_all_reduce(rank, D, pieces, send, receive), strict=True):
        mine[:] = piece
    return sums


@BANK.wrong("other-sum")
def the_largest(rank, D, pieces, send, receive):
    for half in range(2):
        for step in range(D - 1):
            p = (rank + half - step) % D
            send(pieces[p])
            came = receive(pieces[p - 1])
            pieces[p - 1] = came if half else np.maximum(pieces[p - 1], came)
    return pieces


@BANK.wrong("some-missing")
def as_if_by_doubling(rank, D, pieces, send, receive):
    rounds = (D - 1).bit_length()
    for half in range(2):
        for step in range(rounds):
            p = (rank + half - step) % D
            send(pieces[p])
            came = receive(pieces[p - 1])
            pieces[p - 1] = came if half else pieces[p - 1] + came
    return pieces


@BANK.wrong("nothing-sent")
def nothing_is_done(rank, D, pieces, send, receive):
    return pieces


@BANK.wrong("no-return")
def overwrites_and_forgets(rank, D, pieces, send, receive):
    pieces[:] = ring_all_reduce(rank, D, pieces, send, receive)


@BANK.wrong("endless")
def waits_until_all_is_equal(rank, D, pieces, send, receive):
    sums = ring_all_reduce(rank, D, pieces, send, receive)
    while not np.array_equal(sums[0], pieces[0]):
        pass
    return sums


SENDS = "send(sums[p])\n        q = (p - 1) % D\n        came = receive(sums[q])"
FIRST = "for step in range(D - 1):\n        p = (rank - step) % D"
SECOND = "for step in range(D - 1):\n        p = (rank + 1 - step) % D"
TAKEN = "sums[q] = receive(sums[q])"
ADDED = "sums[q] = sums[q] + came"
RECEIVES = "q = (p - 1) % D\n        came = receive(sums[q])\n        send(sums[p])"
BANK.changed("receives-first", "receives_before", SENDS, RECEIVES)
BANK.changed("unreceived", "one_send_too_many", FIRST, f"send(sums[rank])\n    {FIRST}")
BANK.changed("too-few-sends", "one_receive_too_many", "return sums", "receive(sums[0])\n    return sums")
BANK.changed("too-few-sends", "device_0_begins", SENDS, f"if rank == 0 or step:\n            {SENDS}")
BANK.changed("dtype", "receives_float32", "came = receive(sums[q])", "came = receive(sums[q].astype(np.float32))")
BANK.changed("dtype", "sends_float32", SENDS, SENDS.replace("sums[p]", "sums[p].astype(np.float32)"))
BANK.changed("other-size", "receives_by_length", "came = receive(sums[q])", "came = receive(len(sums[q]))")
BANK.changed("other-size", "sends_half", SENDS, SENDS.replace("sums[p]", "sums[p][::2]"))
BANK.changed("rounded", "keeps_float32", ADDED, "sums[q] = (sums[q] + came).astype(np.float32).astype(float)")
BANK.changed("rounded", "six_digits", "return sums", "return [np.round(one, 6) for one in sums]")
BANK.changed("averaged", "means", "return sums", "return [one / D for one in sums]")
BANK.changed("own-only", "gives_the_pieces_back", "return sums", "return pieces")
BANK.changed("half-of-it", "stops_at_half", SECOND, "return sums\n    " + SECOND)
BANK.changed(
    "half-of-it",
    "throws_the_last_away",
    TAKEN,
    "came = receive(sums[q])\n        sums[q] = came if step < D - 2 else sums[q]",
)
BANK.changed(
    "too-much",
    "one_number_as_a_barrier",
    "return sums",
    "if D > 1:\n        send(np.zeros(1))\n        receive(np.zeros(1))\n    return sums",
)
BANK.changed("other-place", "turned_by_rank", "return sums", "return sums[rank:] + sums[:rank]")
BANK.changed(
    "added-twice",
    "own_twice_in_the_first",
    SENDS,
    SENDS.replace("sums[p]", "sums[p] + (pieces[rank] if step == 0 else 0)"),
)
BANK.changed("added-twice", "adds_in_both_halves", TAKEN, "sums[q] = sums[q] + receive(sums[q])")
BANK.changed("not-added", "replaces_in_both_halves", ADDED, "sums[q] = came")
BANK.changed("other-place", "takes_it_for_the_one_just_sent", TAKEN, "sums[p] = receive(sums[q])")
BANK.changed("not-added", "copies_what_is_not_complete", "p = (rank + 1 - step) % D", "p = (rank - step) % D")
BANK.changed(
    "mixed-pieces",
    "counts_upwards",
    "p = (rank - step) % D",
    "p = (rank + step) % D",
    "q = (p - 1) % D\n        came",
    "q = (p + 1) % D\n        came",
)
BANK.changed("other-place", "turned_round", "return sums", "return sums[1:] + sums[:1]")
BANK.changed("not-pieces", "one_array", "return sums", "return np.concatenate(sums)")
BANK.changed("not-pieces", "only_the_own_piece", "return sums", "return sums[rank]")
BANK.changed("not-pieces", "as_a_dict", "return sums", "return dict(enumerate(sums))")
BANK.changed("other-lengths", "totals", "return sums", "return [one.sum() for one in sums]")
BANK.changed("other-lengths", "rows", "return sums", "return [one[None] for one in sums]")
BANK.changed("unequal-pieces", "all_as_long_as_the_first", "came = receive(sums[q])", "came = receive(sums[0])")
BANK.changed("one-device", "always_one_round", FIRST, FIRST.replace("D - 1", "max(1, D - 1)"))
BANK.changed("one-device", "a_list_for_one", "return sums", "return sums if D > 1 else sums[0]")
FEW = [(half, half.replace("D - 1", "min(1, D - 1)")) for half in (FIRST, SECOND)]
BANK.changed("some-missing", "rounds_of_two_devices", *FEW[0], *FEW[1])
NONE = [(half, half.replace("D - 1", "D - 2")) for half in (FIRST, SECOND)]
BANK.changed("nothing-sent", "one_round_less_in_both_halves", *NONE[0], *NONE[1])
BANK.changed("wrong-way", "second_half_upwards", "rank + 1 - step", "rank + 1 + step")
BANK.changed(
    "wrong-way",
    "both_halves_upwards",
    "p = (rank - step) % D",
    "p = (rank + step) % D",
    "rank + 1 - step",
    "rank - 1 + step",
)
BANK.changed("same-piece", "no_rank_in_either_half", "p = (rank - step) % D", "p = -step % D", "rank + 1", "1")
BANK.changed("same-piece", "no_rank_in_the_first_half", "p = (rank - step) % D", "p = -step % D")
BANK.changed("same-piece", "no_rank_in_the_second_half", "p = (rank + 1 - step) % D", "p = (1 - step) % D")


@BANK.wrong("same-piece")
def pieces_in_their_order(rank, D, pieces, send, receive):
    for s in range(D - 1):
        send(pieces[s])
        pieces[s] = pieces[s] + receive(pieces[s])
    for s in range(D - 1):
        send(pieces[s])
        pieces[s] = receive(pieces[s])
    return pieces


BANK.changed("not-added", "begins_with_the_second_half", FIRST, FIRST.replace("D - 1", "0"))
