"""Who waits for whom, against a simulator of rendezvous that shares no code with it."""

import pytest
from hypothesis import given

from gpipe_edu.distributed.deadlocks import MessageLog
from gpipe_edu.process.lines import Line
from tests.amount import examples
from tests.strategies import RANDOM

pytestmark = pytest.mark.slow

LINE = Line("cell 1", 3, "f")


def post(number, do, peer, tag=0, shape=(2, 3), dtype="float64"):
    fields = {"post": number, "do": do, "peer": peer, "tag": tag, "shape": list(shape), "dtype": dtype}
    return {**fields, "memory": 0, "line": list(LINE)}


def wait(number):
    return {"wait": number, "line": list(LINE)}


def blocking(*messages):
    """A diary whose messages are all done but the last, which is waited for."""
    diary = []
    for number, message in enumerate(messages):
        diary += [post(number, *message), wait(number), {"end": number}]
    return diary[:-1]


def reason(*diaries, returned=()):
    trouble = MessageLog(diaries, returned).deadlock()
    return trouble and trouble.reason


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([("send", 1)], [("send", 0)], "sends"),
        ([("recv", 1)], [("recv", 0)], "receives"),
        ([("send", 1, 1)], [("recv", 0, 2)], "tags"),
        ([("send", 1)], [("recv", 0)], None),
        ([("send", 1), ("recv", 1)], [("recv", 0), ("recv", 0)], "receives"),
    ],
)
def test_two_processes_wait(first, second, expected):
    assert reason(blocking(*first), blocking(*second)) == expected


def test_nobody_is_stuck_while_one_still_works():
    assert reason(blocking(("recv", 1)), []) is None


def test_one_that_has_returned_sends_no_more():
    trouble = MessageLog([blocking(("recv", 1)), []], returned={1}).deadlock()
    assert trouble.reason == "returned"
    assert "process 0 waits for a message from process 1, which has returned" in trouble.message
    assert trouble.lines == (LINE,)


def test_three_in_a_circle_are_found_and_named():
    diaries = [blocking(("recv", 2)), blocking(("recv", 0)), blocking(("send", 0))]
    trouble = MessageLog(diaries).deadlock()
    assert trouble is None, "2 sends what 0 receives"
    diaries[2] = blocking(("recv", 1))
    trouble = MessageLog(diaries).deadlock()
    assert trouble.reason == "receives"
    assert all(f"process {rank} waits" in trouble.message for rank in range(3))


def test_a_message_whose_handle_was_thrown_away_does_not_come():
    sender = [post(0, "isend", 1), {"drop": 0}]
    assert reason(sender, blocking(("recv", 0)), returned={0}) == "lost"
    assert reason(sender, blocking(("recv", 0, 0, (2, 3), "float32")), returned={0}) == "dtype", "gloo tore it down"
    sender = [post(0, "isend", 1), wait(0), {"end": 0}]
    assert reason(sender, blocking(("recv", 0)), returned={0}) is None


def test_a_receive_from_anybody_is_given_the_benefit_of_the_doubt():
    assert reason(blocking(("recv", None)), blocking(("send", 0))) is None


def test_what_does_not_fit_is_named():
    sender, receiver = blocking(("send", 1, 0, (3, 4))), blocking(("recv", 0, 0, (4, 4)))
    trouble = MessageLog([sender, receiver]).mismatch()
    assert trouble.reason == "size"
    assert "3 x 4 of float64" in trouble.message
    assert MessageLog([sender, blocking(("recv", 0, 0, (12,)))]).mismatch() is None, "the same bytes"
    assert MessageLog([sender, blocking(("recv", 0, 0, (3, 4), "float32"))]).mismatch().reason == "dtype"


def test_what_nobody_received_and_what_nobody_waited_for():
    sent = [post(0, "isend", 1)]
    assert MessageLog([sent, []], (0, 1)).leftover().reason == "unreceived"
    received = [*blocking(("recv", 0)), {"end": 0}]
    assert MessageLog([[*sent, {"drop": 0}], received], (0, 1)).leftover().reason == "unwaited"
    assert MessageLog([[*sent, wait(0), {"end": 0}], received], (0, 1)).leftover() is None


def test_a_send_that_its_step_has_not_waited_for_is_told_even_if_the_next_step_does():
    received = [*blocking(("recv", 0))]
    sent = [post(0, "isend", 1), {"returned": True}, wait(0), {"end": 0}]
    fault = MessageLog([sent, received], {0, 1}).leftover()
    assert (fault.reason, fault.message) == (
        "unwaited",
        "process 0 did not wait for its isend: keep what isend gives back, and wait()",
    )
    in_time = [post(0, "isend", 1), wait(0), {"end": 0}, {"returned": True}]
    assert MessageLog([in_time, received], {0, 1}).leftover() is None


def programs(rng, K):
    """Blocking sends and receives and isends that nobody waits for before the end, at random or from real messages."""
    rows = [[] for _ in range(K)]
    for _ in range(rng.randint(1, 6)):
        a, b = rng.sample(range(K), 2)
        tag = rng.choice([0, 0, 0, 1])
        rows[a].append((rng.choice(["send", "send", "isend"]), b, tag))
        rows[b].append(("recv", a, tag))
    if rng.random() < 0.7:
        for row in rows:
            if len(row) > 1 and rng.random() < 0.5:
                i = rng.randrange(len(row) - 1)
                row[i], row[i + 1] = row[i + 1], row[i]
    return rows


def step(rows, state, rng):
    """Let one process that can do so go on; False if none can. state: per process [at, posted, diary]."""

    def met(rank):
        do, peer, tag = rows[rank][state[rank][0]]
        mine = sum(1 for o, p, t in rows[rank][: state[rank][0] + 1] if (o[-4:], p, t) == (do[-4:], peer, tag))
        other = "recv" if do.endswith("send") else "send"
        theirs = sum(1 for o, p, t in rows[peer][: state[peer][1]] if (o[-4:], p, t) == (other, rank, tag))
        return theirs >= mine

    ranks = list(range(len(rows)))
    rng.shuffle(ranks)
    for rank in ranks:
        at, posted, diary = state[rank]
        if at == len(rows[rank]):
            continue
        if posted == at:
            diary.append(post(at, *rows[rank][at]))
            if rows[rank][at][0] != "isend":
                diary.append(wait(at))
                state[rank][1] += 1
            else:
                state[rank][:2] = at + 1, at + 1
            return True
        if met(rank):
            diary.append({"end": at})
            state[rank][0] += 1
            return True
    return False


def test_stuck_means_that_nobody_can_go_on():
    found = [0, 0]

    @examples(1000)
    @given(RANDOM)
    def judged(rng):
        rows = programs(rng, rng.choice([2, 2, 3]))
        state = [[0, 0, []] for _ in rows]
        while True:
            returned = {rank for rank, row in enumerate(rows) if state[rank][0] == len(row)}
            trouble = MessageLog([diary for _, _, diary in state], returned).deadlock()
            if not step(rows, state, rng):
                break
            assert trouble is None, rows
        assert (trouble is None) == (len(returned) == len(rows)), rows
        found[trouble is None] += 1

    judged()
    assert min(found) > 100
