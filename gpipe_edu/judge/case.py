"""What every check is written with: a case is one call of the learner's function, judged by a list of signs.

A judge yields signs in the order in which they are tried,

    def signs(cut: Cut) -> Signs:
        yield Sign("not-a-list", not isinstance(cut.pieces, list))
        yield Sign("lost", cut.samples < cut.N, difference=f"{cut.N - cut.samples} samples are missing")

and `case.judge(signs(cut))` raises `Wrong` for the first that shows. Later signs may rely on the earlier ones not
having shown. The sentence of a slip stands in the exercise's `messages.toml`; of the judges, only `Case` raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from random import Random
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from gpipe_edu.base.words import shorten
from gpipe_edu.judge.findings import CUT_SHORT, GROWS, STOPPED, Chart, Finding, Reply, Success, Trouble, Unwritten
from gpipe_edu.judge.guest.forms import HandedOutAgain
from gpipe_edu.judge.guest.hiding import ReadyMade
from gpipe_edu.process.asking import Ask
from gpipe_edu.process.lines import Line

from .exercise import Exercise


class Sign(NamedTuple):
    """What betrays a slip: whether it shows in the answer at hand, and what to show then beside the slip's sentence.

    Empty fields are taken from the case. words: what replaces names in braces in the sentence. sentence: the slip whose
    sentence is used, if this one has none of its own.
    """

    slip: str
    shows: bool = True
    expected: str = ""
    came: str = ""
    difference: str = ""
    charts: tuple[Chart, ...] = ()
    trouble: Trouble | None = None
    words: Mapping[str, object] = {}
    sentence: str = ""


Signs: TypeAlias = Iterable[Sign]
"""In the order in which they are tried. A generator, so that a sign is worked out only if no earlier one shows."""

Traps: TypeAlias = Mapping[str, str]
"""Errors of the learner's code that betray a misconception: the beginning of "type: message" -> slip.
The longest beginning counts."""

_Answer = TypeVar("_Answer", bound=NamedTuple)


class Belief(NamedTuple):
    """A misconception, and what those who have it may give: a variant for each way to act on it."""

    slip: str
    variants: tuple[Any, ...]


def try_beliefs(beliefs: Iterable[Belief], fits: Callable[[Any], bool]) -> Iterator[Sign]:
    """A sign for each belief: it shows if some variant fits what came."""
    for belief in beliefs:
        yield Sign(belief.slip, any(map(fits, belief.variants)))


class Wrong(Exception):
    """An answer that is wrong, with the finding. number: the call that shows it, 0 if none does."""

    def __init__(self, finding: Finding, number: int = 0) -> None:
        super().__init__(finding.because)
        self.finding, self.number = finding, number


Tell = Callable[[int, str], None]
"""Is told the number of each case that begins, and its call as a learner would write it."""


class Asked(Protocol):
    """A sandbox, through which a function is asked."""

    def __call__(self, answer: Ask | None = None, /, **given: Any) -> Reply: ...  # noqa: D102

    def lines(self, found: Iterable[tuple[Any, ...]]) -> tuple[Line, ...]: ...  # noqa: D102


class Exam:
    """One check: asks the learner's process for answers, and knows the sentences of the exercise.

    secret: draws what no answer may know beforehand. passed_over: promises that were seen broken, which do not end the
    exam: the answer is judged further. replies: what came, call by call, and what was asked meanwhile.
    tell: what is told of each case that begins. anew: opens a process in which the answer has done nothing yet; nothing
    more is asked of the first one then, as a sandbox may have ended it. By default the one that is there.
    """

    def __init__(
        self,
        exercise: Exercise,
        process: Asked,
        seed: int = 0,
        tell: Tell | None = None,
        anew: Callable[[], AbstractContextManager[Asked]] | None = None,
    ) -> None:
        self.exercise, self._process, self._tell = exercise, process, tell
        self._anew = anew or (lambda: nullcontext(process))
        self.secret = Random(f"secret {seed}")
        self.replies: list[tuple[Reply, list[Any]]] = []
        self.passed_over: list[Finding] = []
        self._call = ""

    @property
    def calls(self) -> int:
        """How often the function has been called."""
        return len(self.replies)

    def object_to(self, wrong: Wrong) -> None:
        """Raise `wrong`; only note it if its slip is a broken promise."""
        if wrong.finding.slip not in self.exercise.promises:
            raise wrong
        if wrong.finding.slip not in [finding.slip for finding in self.passed_over]:
            self.passed_over.append(wrong.finding)

    def case(self, call: str = "", expected: str = "") -> Case:
        """A call to be judged, as a learner would write it, and what is expected of it."""
        self._call = call
        return Case(self, call, expected)

    def reply(self, answer: Ask | None = None, anew: bool = False, /, **given: Any) -> Reply:
        """What comes back, be it an error. answer: answers what is asked from inside meanwhile. anew: ask a process in
        which nothing has been done before. Raises Unwritten.
        """
        if self._tell:
            self._tell(self.calls + 1, self._call)
        questions: list[Any] = []

        def note_and_answer(question: Any) -> Any:
            questions.append(question)
            return answer(question) if answer else None

        with self._anew() if anew else nullcontext(self._process) as process:
            reply = process(answer and note_and_answer, **given)
        self.replies.append((reply, questions))
        if reply.trouble and self.is_the_stub(reply.trouble):
            raise Unwritten
        return reply

    def success(self, *charts: Chart, **words: object) -> Success:
        """What is said of a right answer."""
        return Success(self.exercise.success.format_map(words), charts)

    def lines(self, found: Iterable[tuple[Any, ...]]) -> tuple[Line, ...]:
        """Those of the lines (file, number, function) that are the learner's own, with their texts."""
        return self._process.lines(found)

    @contextmanager
    def blame_on(self, slip: str, *, spare: Collection[str] = (), **words: object) -> Iterator[None]:
        """Blame this slip for all that is wrong inside, as the case differs in one thing from others that were right.

        What had to be stopped, recurses too deeply or takes the answer from us has its own reason, and so have the
        slips in `spare`.
        """
        try:
            yield
        except Wrong as wrong:
            trouble = wrong.finding.trouble
            own = trouble is not None and trouble.kind in (*CUT_SHORT, "RecursionError", ReadyMade.__name__)
            if own or wrong.finding.slip in spare:
                raise
            because = self.exercise.sentence(slip, words)
            self.object_to(Wrong(wrong.finding._replace(slip=slip, because=because), wrong.number))

    def is_the_stub(self, trouble: Trouble) -> bool:
        """Whether the error is the stub's own bare `raise NotImplementedError`, and no other error of that type.

        One with a message is not the stub's: PyTorch, for one, refuses a call of an `nn.ModuleList` this way.
        """
        if trouble.kind != "NotImplementedError" or trouble.message:
            return False
        if not trouble.where:
            return True
        last, first = trouble.where[-1], self.exercise.function[0]
        return "raise NotImplementedError" in last.text and (first.isupper() or last.function == self.exercise.function)


class Case:
    """One call of the learner's function. words: for the names in braces in any sentence about it."""

    def __init__(self, exam: Exam, call: str, expected: str) -> None:
        self.exam, self.call, self.expected = exam, call, expected
        self.came = self.difference = ""
        self.words: Mapping[str, object] = {}
        self.charts: tuple[Chart, ...] = ()
        self.number = 0

    def ask(self, traps: Traps | None = None, answer: Ask | None = None, anew: bool = False, /, **given: Any) -> Any:
        """The value for `given`. Raises Wrong, Unwritten."""
        reply = self.exam.reply(answer, anew, **given)
        self.number = self.exam.calls
        if reply.trouble and reply.trouble.kind == HandedOutAgain.__name__:
            raise self.wrong(Sign("handed-out-again"))
        if reply.trouble:
            self.fail(reply.trouble, traps)
        self.judge([Sign("no-return", reply.value is None, came="None")])
        return reply.value

    def ask_for(
        self,
        kind: type[_Answer],
        question: NamedTuple,
        traps: Traps | None = None,
        answer: Ask | None = None,
        anew: bool = False,
    ) -> _Answer:
        """What `perform` gives for a question, whose fields it gets by name.

        It gives an answer of that `kind`; or, for what can't be judged any further, a dict with a slip, what was
        expected and what came. answer, anew: as `Exam.reply` has them. Raises Wrong, Unwritten.
        """
        value = self.ask(traps, answer, anew, **question._asdict())
        if isinstance(value, dict):
            raise self.wrong(Sign(str(value["slip"]), expected=str(value["expected"]), came=str(value["came"])))
        return kind(*value)

    def refuses(
        self,
        sign: Sign,
        describe: Callable[[Any], str] | None = None,
        signs: Callable[[Any], Signs] | None = None,
        **given: Any,
    ) -> None:
        """Make sure that the function raises ValueError for `given`; if it returns something, that is `sign`.

        describe: says what was returned, where `perform` adds something to it. signs: what may be wrong about it; the
        first that shows is told in place of `sign`. Raises Wrong, Unwritten.
        """
        value, trouble, _ = self.exam.reply(**given)
        self.number = self.exam.calls
        sign = sign._replace(expected="ValueError")
        if trouble is None:
            self.came = (describe or _brief)(value)
            self.judge(signs(value) if signs else ())
            self.judge([sign])
        elif "ValueError" not in trouble.bases:
            if trouble.kind in STOPPED:
                self.fail(trouble)
            if _on_purpose(trouble):
                sign = sign._replace(slip="other-error", words={"kind": trouble.kind})
            came = f"{trouble.kind}: {trouble.message}".rstrip(": ")
            self.judge([sign._replace(came=came, trouble=trouble)])

    def judge(self, signs: Signs) -> None:
        """Raise Wrong for the first sign that shows."""
        for sign in signs:
            if sign.shows:
                self.exam.object_to(self.wrong(sign))

    def fail(self, trouble: Trouble, traps: Traps | None = None) -> NoReturn:
        """Raise Wrong for an error of the learner's code, Unwritten for that of the stub."""
        if self.exam.is_the_stub(trouble):
            raise Unwritten
        raise self.wrong(_sign_of(trouble, traps or {}))

    def wrong(self, sign: Sign) -> Wrong:
        """The error for a sign."""
        because = self.exam.exercise.sentence(sign.sentence or sign.slip, {**self.words, **sign.words})
        expected, came, difference, charts = sign.expected, sign.came, sign.difference, sign.charts
        if sign.trouble is None:  # else the error is what came
            expected, came = expected or self.expected, came or self.came
            difference, charts = difference or self.difference, charts or self.charts
        elif sign.trouble.kind not in STOPPED:
            expected = expected or self.expected or self.exam.exercise.gives
        return Wrong(
            Finding(sign.slip, because, self.call, expected, came, difference, charts, sign.trouble), self.number
        )


def _sign_of(trouble: Trouble, traps: Traps) -> Sign:
    words: dict[str, object] = {"seconds": f"{trouble.seconds or 0:g}", "limit": trouble.message, "kind": trouble.kind}
    names = {
        "stopped": "endless",
        "printed": "printed",
        "crowd": "crowd",
        "RecursionError": "too-deep",
        ReadyMade.__name__: "ready-made",
    }
    text = f"{trouble.kind}: {trouble.message}"
    trap = max((start for start in traps if text.startswith(start)), key=len, default="")
    slip = (
        traps.get(trap)
        or ("memory" if _lacks_memory(trouble) else "")
        or names.get(trouble.kind)
        or ("exit" if trouble.kind in STOPPED else "error")
    )
    if slip == "error" and trouble.kind in ("ValueError", "AssertionError") and _on_purpose(trouble):
        slip = "refuses-right"
    if slip == "error" and trouble.kind == "TypeError" and not trouble.where:
        slip = "arguments"
    return Sign(slip, trouble=trouble, words=words)


def _lacks_memory(trouble: Trouble) -> bool:
    """Whether memory ran out, as Python, NumPy or PyTorch tells it; or would have, in more time."""
    of_torch = trouble.kind == "RuntimeError" and re.search("allocate memory|bad_alloc", trouble.message)
    return "MemoryError" in (trouble.kind, *trouble.bases) or bool(of_torch) or trouble.message == GROWS


def _on_purpose(trouble: Trouble) -> bool:
    """Whether the learner's own code refused, with a `raise` or an `assert`; else something broke."""
    return bool(trouble.where) and re.search(r"\b(raise|assert)\b", trouble.where[-1].text) is not None


def _brief(value: Any) -> str:
    return shorten(repr(value), 80)
