"""Exercise 09, under a cap."""

from gpipe_edu import Op, Schedule, gpipe, one_f_one_b
from gpipe_edu.schedule.recompute import with_recompute
from tests.solutions.bank import Bank

BANK = Bank("ex09/cap")
MIDDLE = "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5"
LAST = "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5"


@BANK.wrong("plain-1f1b")
def one_f_one_b_as_it_is():
    return one_f_one_b(3, 6)


@BANK.wrong("plain-gpipe")
def gpipe_as_it_is():
    return str(gpipe(3, 6))


@BANK.wrong("everything")
def early_recompute_everywhere():
    return with_recompute(one_f_one_b(3, 6), "always").rows


@BANK.wrong("waits")
def waits_for_room():
    return f"{MIDDLE}\n{MIDDLE}\n{LAST}"


@BANK.wrong("all-on-device-0")
def the_one_to_beat():
    return f"F0 F1 F2 R0 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 R4 B4 R5 B5\n{MIDDLE}\n{LAST}"


@BANK.wrong("late")
def recomputes_late():
    return f"F0 F1 F2 B0 F3 C1 F4 C2 F5 C3 C4 C5\n{MIDDLE}\n{LAST}"


@BANK.wrong("over-the-cap")
def recomputes_too_few():
    return f"F0 F1 F2 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 B4 B5\n{MIDDLE}\n{LAST}"


@BANK.wrong("unneeded")
def recomputes_one_too_many():
    return f"F0 F1 F2 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 R4 B4 R5 B5\n{MIDDLE}\n{LAST}"


@BANK.wrong("too-slow")
def goes_back_too_often():
    return f"F0 F1 F2 R0 B0 R1 B1 F3 R2 B2 F4 B3 F5 B4 B5\n{MIDDLE}\n{LAST}"


@BANK.wrong("other-size")
def only_four_micro_batches():
    return one_f_one_b(2, 6)


@BANK.wrong("deadlock")
def goes_back_too_soon():
    return (
        "F0 B0 F1 F2 B1 F3 B2 F4 B3 F5 B4 B5\nF0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5\nF0 F1 B0 B1 F2 B2 F3 B3 F4 B4 F5 B5"
    )


@BANK.wrong("other-kinds")
def splits_the_backward():
    return [[Op(kind, m, k) for m in range(6) for kind in "FIW"] for k in range(3)]


@BANK.wrong("holds-too-much")
def one_more_in_the_warm_up():
    return "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5\nF0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5\n" + LAST


@BANK.wrong("not-a-word")
def commas_between_ops():
    return "F0, F1, B0\nF0, B0"


@BANK.right
def twenty_six():
    return Schedule.parse(f"F0 F1 F2 R1 B0 F3 R2 B1 F4 R3 B2 F5 R4 B3 R5 B4 B5\n{MIDDLE}\n{LAST}")


@BANK.right
def the_best_as_rows():
    text = f"F0 F1 F2 F3 R1 B0 R2 B1 F4 B2 F5 R3 B3 R5 B4 B5\n{MIDDLE}\n{LAST}"
    return [[Op(w[0], int(w[1:]), k) for w in line.split()] for k, line in enumerate(text.splitlines())]


@BANK.right
def text_with_comments_and_blank_lines():
    return f"""
    # device 0 recomputes all but the last
    F0 F1 F2 R1 B0 F3 R2 B1 F4 R3 B2 F5 R4 B3 R5 B4 B5  # 26 units

    {MIDDLE}
    {LAST}
    """
