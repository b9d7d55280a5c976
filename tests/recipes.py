"""Every recipe of the package over small sizes: what most tests of schedules and timelines run through."""

import random

import gpipe_edu as ge

RECIPES = {
    "naive": ge.naive,
    "gpipe": ge.gpipe,
    "gpipe late": lambda K, M: ge.gpipe(K, M, recompute="late"),
    "gpipe early": lambda K, M: ge.gpipe(K, M, recompute="early"),
    "1f1b": ge.one_f_one_b,
    "zero bubble": ge.zero_bubble,
    "interleaved 1": lambda K, M: ge.interleaved(K, M, 1),
    "interleaved 2": lambda K, M: ge.interleaved(K, M, 2),
    "interleaved 3": lambda K, M: ge.interleaved(K, M, 3),
}


def small_schedules(K: int = 3, M: int = 4) -> list[ge.Schedule]:
    """All recipes for all sizes up to K devices and M micro-batches."""
    return [recipe(k, m) for recipe in RECIPES.values() for k in range(1, K + 1) for m in range(1, M + 1)]


def recompute_and_split(K: int, M: int) -> ge.Schedule:
    """F ..., then R, I, W of each micro-batch: the one legal way to finish that no recipe uses."""
    rows = []
    for k in range(K):
        row = [ge.Op("F", m, k) for m in range(M)]
        for m in reversed(range(M)):
            row += [ge.Op(kind, m, k) for kind in "RIW"]
        rows.append(row)
    return ge.Schedule(rows, name="recompute and split")


def random_costs(rng: random.Random, stages: int) -> tuple[ge.Costs, dict[str, list[float]], int]:
    """Uneven integer costs, zeros included, as the package takes them and as a plain table with its defaults."""

    def draw() -> list[int]:
        return [rng.choice((0, 1, 2, 3, 5, 8)) for _ in range(stages)]

    F, B, send = draw(), draw(), rng.choice((0, 0, 1, 4))
    given = {kind: draw() if rng.random() < 0.5 else None for kind in "RCIW"}
    table = {"F": F, "B": B, "R": given["R"] or F}
    table["C"] = given["C"] or [table["R"][k] + B[k] for k in range(stages)]
    for kind in "IW":
        table[kind] = given[kind] or [b / 2 for b in B]
    return ge.Costs(F=F, B=B, send=send, **given), table, send
