"""Every recipe of the package over small sizes: what most tests of schedules and timelines run through."""

import gpipe_edu as ge
from gpipe_edu.schedule import recipes, with_recompute

RECIPES = recipes.RECIPES | {
    "1f1b recompute": lambda K, M: with_recompute(ge.one_f_one_b(K, M), "always"),
    "interleaved 1": lambda K, M: ge.interleaved(K, M, 1),
    "interleaved 3": lambda K, M: ge.interleaved(K, M, 3),
}


def small_schedules(K: int = 3, M: int = 4) -> list[ge.Schedule]:
    """The orders of all recipes for all sizes up to K devices and M micro-batches; pairs have tests of their own."""
    return [recipe(k, m).apart() for recipe in RECIPES.values() for k in range(1, K + 1) for m in range(1, M + 1)]


def recompute_and_split(K: int, M: int) -> ge.Schedule:
    """F ..., then R, I, W of each micro-batch: the one legal way to finish that no recipe uses."""
    rows = []
    for k in range(K):
        row = [ge.Op("F", m, k) for m in range(M)]
        for m in reversed(range(M)):
            row += [ge.Op(kind, m, k) for kind in "RIW"]
        rows.append(row)
    return ge.Schedule(rows, name="recompute and split")
