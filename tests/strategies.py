"""What properties are tried with, for hypothesis: where one fails, it is told for the smallest case that was found."""

from hypothesis import strategies as st

import gpipe_edu as ge

from .oracle import Rows

RANDOM = st.randoms(use_true_random=False)
"""A random.Random whose choices hypothesis makes, so that they shrink."""

SLIPS = ("drop", "double", "swap", "swap neighbours", "shift", "move", "swap devices", "retag", "finish otherwise")
FINISH = {"B": ["C", "RB", "IW", "RIW"], "C": ["B", "RB"], "I": ["B", "RI"]}


def slipped(rng, rows: Rows, slips=SLIPS) -> Rows:
    """The rows after one slip; some of them make another legal schedule, or none at all."""
    rows = [list(row) for row in rows]
    places = [(device, place) for device, row in enumerate(rows) for place in range(len(row))]
    if not places:
        return rows
    device, place = rng.choice(places)
    row, slip = rows[device], rng.choice(slips)
    kind, m, k = op = row[place]
    if slip in ("drop", "shift", "move"):
        del row[place]
    if slip in ("double", "shift", "move"):
        goal = rng.choice(rows) if slip == "move" else row
        goal.insert(rng.randrange(len(goal) + 1), op)
    elif slip == "swap":
        other = rng.randrange(len(row))
        row[place], row[other] = row[other], row[place]
    elif slip == "swap neighbours":
        row[place - 1 : place + 1] = row[place - 1 : place + 1][::-1]
    elif slip == "swap devices":
        other = rng.randrange(len(rows))
        rows[device], rows[other] = rows[other], row
    elif slip == "retag":
        M, K = (3 + max(found[index] for found_row in rows for found in found_row) for index in (1, 2))
        retagged = (rng.choice("FBRCIW"), m, k), (kind, rng.randrange(M), k), (kind, m, rng.randrange(K))
        row[place] = rng.choice(retagged)
    elif slip == "finish otherwise":
        row[place : place + 1] = [(new, m, k) for new in rng.choice(FINISH.get(kind, [kind]))]
    return rows


def times(stages: int):
    """One whole number for each stage, 0 among them."""
    return st.lists(st.sampled_from((0, 1, 2, 3, 5, 8)), min_size=stages, max_size=stages)


@st.composite
def priced(draw, schedules: list[ge.Schedule]):
    """A schedule, costs as the package takes them and as a plain table with defaults, and the time of sending."""
    schedule = draw(st.sampled_from(schedules))
    each = times(schedule.stages)
    F, B, send = draw(each), draw(each), draw(st.sampled_from((0, 0, 1, 4)))
    given = {kind: draw(st.none() | each) for kind in "RCIW"}
    table = {"F": F, "B": B, "R": given["R"] or F}
    table["C"] = given["C"] or [r + b for r, b in zip(table["R"], B, strict=True)]
    for kind in "IW":
        table[kind] = given[kind] or [b / 2 for b in B]
    return schedule, ge.Costs(F=F, B=B, send=send, **given), table, send
