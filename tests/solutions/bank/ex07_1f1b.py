"""Exercise 07, 1F1B."""

from collections import deque

from gpipe_edu import Op, Schedule
from tests.solutions.bank import Bank

BANK = Bank("ex07/1f1b")


def alternate(K, M, warm_up):
    """Rows with a warm-up of so many forwards on each device."""
    rows = []
    for k in range(K):
        w = max(0, min(M, warm_up(k)))
        row = [Op("F", m, k) for m in range(w)]
        for m in range(M):
            if w + m < M:
                row.append(Op("F", w + m, k))
            row.append(Op("B", m, k))
        rows.append(row)
    return rows


@BANK.wrong("f-then-b")
def all_forwards_first(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in range(M)] for k in range(K)]


@BANK.wrong("no-warm-up")
def alternates_from_the_start(K, M):
    return alternate(K, M, lambda k: 0)


@BANK.wrong("same-warm-up")
def everybody_warms_up_alike(K, M):
    return alternate(K, M, lambda k: K - 1)


@BANK.wrong("one-more")
def one_too_many(K, M):
    return alternate(K, M, lambda k: K - k)


@BANK.wrong("one-less")
def one_too_few(K, M):
    return alternate(K, M, lambda k: K - 2 - k)


@BANK.wrong("reversed")
def warm_up_grows_with_k(K, M):
    return alternate(K, M, lambda k: k)


@BANK.wrong("beyond-M")
def always_K_forwards(K, M):
    rows = []
    for k in range(K):
        w = K - 1 - k
        row = [Op("F", m, k) for m in range(w)]
        for m in range(M):
            row += [Op("F", w + m, k), Op("B", m, k)]
        rows.append(row)
    return rows


@BANK.wrong("no-drain")
def stops_when_forwards_are_over(K, M):
    rows = []
    for k in range(K):
        w = min(M, K - 1 - k)
        row = [Op("F", m, k) for m in range(w)]
        for m in range(M - w):
            row += [Op("F", w + m, k), Op("B", m, k)]
        rows.append(row)
    return rows


@BANK.wrong("missing")
def the_loss_stage_forgets_its_last(K, M):
    rows = alternate(K, M, lambda k: K - 1 - k)
    return [*rows[:-1], rows[-1][:-1]]


@BANK.wrong("order")
def backward_before_its_forward(K, M):
    rows = []
    for k in range(K):
        w = min(M, K - 1 - k)
        row = [Op("F", m, k) for m in range(w)]
        for m in range(M):
            row.append(Op("B", m, k))
            if w + m < M:
                row.append(Op("F", w + m, k))
        rows.append(row)
    return rows


@BANK.wrong("duplicate")
def warm_up_counted_twice(K, M):
    rows = []
    for k in range(K):
        w = min(M, K - 1 - k)
        row = [Op("F", m, k) for m in range(w)]
        for m in range(M):
            row += [Op("F", m, k), Op("B", m, k)]
        rows.append(row)
    return rows


@BANK.wrong("upside-down")
def last_device_first(K, M):
    return alternate(K, M, lambda k: K - 1 - k)[::-1]


@BANK.wrong("by-micro-batch")
def a_row_per_micro_batch(K, M):
    return [[Op(kind, m, k) for kind in "FB" for k in range(K)] for m in range(M)]


@BANK.wrong("too-slow")
def only_the_first_device_warms_up(K, M):
    return alternate(K, M, lambda k: K - 1 if k == 0 else 0)


@BANK.wrong("no-return")
def forgets_to_return(K, M):
    Schedule(alternate(K, M, lambda k: K - 1 - k)).check()


@BANK.wrong("round-trip")
def two_ahead_for_each_stage(K, M):
    return alternate(K, M, lambda k: 2 * (K - 1 - k))


@BANK.wrong("blocks")
def two_forwards_two_backwards(K, M):
    rows = []
    for k in range(K):
        f = min(M, K - 1 - k)
        row, b = [Op("F", m, k) for m in range(f)], 0
        while b < M:
            more = min(2, M - f)
            row += [Op("F", m, k) for m in range(f, f + more)]
            f += more
            done = min(2, f - b)
            row += [Op("B", m, k) for m in range(b, b + done)]
            b += done
        rows.append(row)
    return rows


@BANK.wrong("newest-first")
def a_stack(K, M):
    rows = []
    for k in range(K):
        row, held = [], []
        for m in range(M):
            row.append(Op("F", m, k))
            held.append(m)
            if len(held) == K - k:
                row.append(Op("B", held.pop(), k))
        rows.append(row + [Op("B", m, k) for m in reversed(held)])
    return rows


@BANK.wrong("few-micro-batches")
def asks_for_enough_micro_batches(K, M):
    if M < K:
        raise ValueError("1F1B needs M >= K")
    return alternate(K, M, lambda k: K - 1 - k)


@BANK.wrong("from-one")
def micro_batches_from_one(K, M):
    return [[op._replace(micro_batch=op.micro_batch + 1) for op in row] for row in alternate(K, M, lambda k: K - 1 - k)]


@BANK.wrong("exchanged")
def K_and_M_exchanged(K, M):
    return alternate(M, K, lambda k: M - 1 - k)


@BANK.wrong("left-over")
def rows_in_a_default(K, M, rows=[]):  # noqa: B006
    rows += alternate(K, M, lambda k: K - 1 - k)
    return rows


@BANK.wrong("only-small")
def tried_with_eight_devices(K, M):
    return alternate(K, M, lambda k: K - 1 - k)[:8] + [[] for _ in range(8, K)]


@BANK.wrong("other-kinds")
def recomputes_in_the_backward(K, M):
    rows = alternate(K, M, lambda k: K - 1 - k)
    return [[op._replace(kind="C") if op.kind == "B" else op for op in row] for row in rows]


@BANK.wrong("stage-zero")
def stage_zero_everywhere(K, M):
    return [[op._replace(stage=0) for op in row] for row in alternate(K, M, lambda k: K - 1 - k)]


@BANK.right
def row_by_row_as_they_come(K, M):
    def row(k):
        ahead = 0
        for m in range(M):
            while ahead < min(M, m + K - k):
                yield Op("F", ahead, k)
                ahead += 1
            yield Op("B", m, k)

    for k in range(K):
        yield row(k)


@BANK.right
def by_simulation(K, M):
    """Each device: a backward if one is ready, else a forward if the cap allows; ticks until all is done."""
    rows = [[] for _ in range(K)]
    forward = [deque(range(M)) if k == 0 else deque() for k in range(K)]
    backward = [deque() for _ in range(K)]
    while any(len(row) < 2 * M for row in rows):
        done = []
        for k in range(K):
            held = sum(op.kind == "F" for op in rows[k]) - sum(op.kind == "B" for op in rows[k])
            if backward[k]:
                done.append(Op("B", backward[k].popleft(), k))
            elif forward[k] and held < K - k:
                done.append(Op("F", forward[k].popleft(), k))
        for op in done:
            rows[op.stage].append(op)
            if op.kind == "F" and op.stage + 1 < K:
                forward[op.stage + 1].append(op.micro_batch)
            elif op.kind == "F":
                backward[op.stage].append(op.micro_batch)
            elif op.stage:
                backward[op.stage - 1].append(op.micro_batch)
    return Schedule(rows)


@BANK.wrong("no-ops")
def as_text(K, M):
    lines = []
    for k in range(K):
        ahead = min(M, K - k)
        words = [f"F{m}" for m in range(ahead)]
        for m in range(M - ahead):
            words += [f"B{m}", f"F{ahead + m}"]
        words += [f"B{m}" for m in range(M - ahead, M)]
        lines.append(" ".join(words))
    return "\n".join(lines)


@BANK.wrong("holds-too-much")
def the_first_device_takes_one_more(K, M):
    return alternate(K, M, lambda k: K - 1 - k + (k == 0))


@BANK.wrong("out-of-turn")
def the_last_micro_batch_first(K, M):
    return [
        [Op(op.kind, M - 1 - op.micro_batch, op.stage) for op in row] for row in alternate(K, M, lambda k: K - 1 - k)
    ]


@BANK.wrong("error")
def zero_bubble_without_its_weight_gradients(K, M):
    from gpipe_edu import zero_bubble

    kinds = {"F": "F", "I": "B"}
    return [[op._replace(kind=kinds[op.kind]) for op in row if op.kind in kinds] for row in zero_bubble(K, M).rows]
