"""The ten levels, in the order in which they unlock, each passed only by whoever has found out what it is about.

Sizes are small enough to build by hand in a few minutes. Every par is worked out again by a test.
"""

from __future__ import annotations

from typing import Final

from gpipe_edu.timeline import Costs
from gpipe_edu.validate import number, whole

from .level import Level

SANDBOX: Final = "sandbox"
"""The key of the last level, whose sizes its player chooses."""

LARGEST: Final = {"K": 16, "M": 64, "V": 8}
"""How large a sandbox may be."""


def sandbox(K: int = 4, M: int = 8, V: int = 1, B: float = 2, send: float = 0, cap: float | None = None) -> Level:
    """A level of your own: any sizes, every kind of op; F takes 1, and every device may hold `cap` micro-batches.

    Raises ValueError or TypeError for sizes that make no pipeline, or that are larger than `LARGEST`.
    """
    for name, value in (("K", K), ("M", M), ("V", V)):
        if whole(f"sandbox {name}", value, 1) > LARGEST[name]:
            raise ValueError(f"sandbox {name} is {value}; it must be at most {LARGEST[name]}")
    return Level(
        SANDBOX,
        "Your own sandbox",
        "Whatever you want to find out: any op, any order, no par.",
        K,
        M,
        kinds="FBRCIW",
        V=V,
        costs=Costs(F=1, B=number("sandbox B", B), send=number("sandbox send", send)),
        cap=None if cap is None else (number("sandbox cap", cap),) * K,
        policy="1f1b",
        mode="free",
    )


LEVELS: Final[tuple[Level, ...]] = (
    Level(
        "first-dependency",
        "The first dependency",
        "A stage can start only when its input is there: the output of the stage in front on the way forward, the "
        "gradient from the next stage on the way back. With one micro-batch, one device works at a time.",
        K=3,
        M=1,
        goal=6,
        par=6,
        proof="bound",
        par_why="three forwards and three backwards wait for each other in one chain: 3 F + 3 B = 6.",
        policy="gpipe",
    ),
    Level(
        "pipelining",
        "Pipelining",
        "Cut the mini-batch into micro-batches, and devices work at the same time: while stage 1 has micro-batch 0, "
        "stage 0 takes micro-batch 1.",
        K=3,
        M=3,
        goal=10,
        par=10,
        proof="bound",
        par_why="the last device works for 3 (F + B) = 6, after waiting 2 F for its first input, and 2 B follow.",
        policy="gpipe",
    ),
    Level(
        "memory-wall",
        "The memory wall",
        "From its forward to its backward, a micro-batch occupies memory on every stage it has passed. All forwards "
        "first holds all M at once; a device with less room must send some back before it takes more in.",
        K=2,
        M=4,
        cap=(2, 2),
        goal=12,
        par=10,
        proof="bound",
        par_why="the last device works for 4 (F + B) = 8, after waiting F, and B follows. The cap costs no time.",
    ),
    Level(
        "1f1b",
        "One forward, one backward",
        "A micro-batch that has reached the last stage goes back at once; after a short warm-up every device takes one "
        "forward and one backward in turn. Device k then never holds more than K - k, in the time that GPipe takes.",
        K=3,
        M=4,
        cap=(3, 2, 1),
        goal=12,
        par=12,
        proof="bound",
        par_why="(M + K - 1) (F + B) = 12, as without a cap.",
    ),
    Level(
        "recompute-early",
        "Recompute placed early",
        "A stage may keep only its input and run the forward again before the backward. C does that once the gradient "
        "has come. R needs only its own F: a device that waits for the gradient can do it meanwhile, for nothing.",
        K=3,
        M=3,
        kinds="FRBC",
        cap=(5, 4, 3),
        boundary=1,
        interior=2,
        goal=12,
        par=11,
        proof="search",
        par_why="without any R the best is 13, and without the cap, where nothing is recomputed, 10.",
        policy="early recompute",
    ),
    Level(
        "backward-twice",
        "Backward costs twice",
        "A backward takes twice as long as a forward because it is two products: I, the gradient of the input, which "
        "the stage in front waits for, and W, the gradient of the weights, which nobody waits for.",
        K=3,
        M=2,
        kinds="FBIW",
        costs=Costs(F=1, B=2),
        goal=10,
        par=9,
        proof="search",
        par_why="with undivided backwards the best is (M + K - 1) (F + B) = 12.",
        policy="zero_bubble",
    ),
    Level(
        "uneven-stages",
        "Uneven stages",
        "The slowest stage sets the pace: what it idles between its first op and its last, everybody loses. Give it "
        "enough work in hand, more than 1F1B does.",
        K=3,
        M=4,
        costs=Costs(F=(1, 2, 1), B=(2, 4, 2)),
        cap=(3, 3, 3),
        goal=27,
        par=27,
        proof="bound",
        par_why="device 1 works for 4 (2 + 4) = 24, after waiting 1 for its first input, and a backward of 2 follows.",
        policy="forward_first",
    ),
    Level(
        "interleaved",
        "Interleaved stages",
        "A device may hold several stages that are not neighbours. A micro-batch then reaches the last device after a "
        "shorter stage, so devices wait less at the start and at the end: the bubble is V times smaller.",
        K=2,
        M=4,
        V=2,
        cap=(5, 3),
        goal=18,
        par=18,
        proof="bound",
        par_why="the last device works for M V (F + B) = 16 after waiting F, and B follows; 1F1B with the stages "
        "in pairs takes (M + K - 1) V (F + B) = 20.",
        policy="interleaved",
    ),
    Level(
        "zero-bubble",
        "Zero bubble",
        "W waits for nobody's sake, so it can be put off until a device would idle: send gradients back first, "
        "and fill the holes with W.",
        K=3,
        M=4,
        kinds="FIW",
        costs=Costs(F=1, B=2),
        cap=(3, 3, 3),
        goal=14,
        par=14,
        proof="bound",
        par_why="the last device works for 4 (F + I + W) = 12 after waiting 2 F, and no device has more to do. With "
        "every W right after its I, the step takes 16, and 1F1B takes 18.",
        policy="zero_bubble",
    ),
    sandbox(),
)
"""All levels; each unlocks when the one before is solved."""


def find_level(key: str) -> Level:
    """The level with that key, or of that number counted from 1. Raises ValueError for another."""
    meant = key.strip().lower().replace("_", "-").replace(" ", "-")
    for number_, level in enumerate(LEVELS, start=1):
        if meant in (level.key, str(number_)):
            return level
    known = ", ".join(f"{number_} {level.key}" for number_, level in enumerate(LEVELS, start=1))
    raise ValueError(f"level is {key!r}; it must be one of {known}")
