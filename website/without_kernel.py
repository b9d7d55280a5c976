"""In the kernel that runs a lesson for its page: charts and questions become what works without a kernel.

An interactive chart becomes the page that it saves of itself, in a file beside the lesson's page. A question carries
the reply to each answer, packed, so that it is not read by accident.
"""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from pathlib import Path
from typing import Any

from IPython import get_ipython

from gpipe_edu.course.predictions.commit import Outcome
from gpipe_edu.course.predictions.widget import Prediction
from gpipe_edu.puzzles.page.widget import Puzzle
from gpipe_edu.view.gantt.widget import Gantt
from gpipe_edu.view.html import json_element

from .still_charts import also_for_phones


def begin(name: str, folder: str) -> None:
    """From now on widgets show themselves as HTML for the page `name`; charts are written into `folder`."""
    count = iter(range(1, 10_000))

    def chart(widget: Gantt, **_: Any) -> Any:
        file = f"{name}-{next(count)}.html"
        widget.to_html(Path(folder) / file)
        title = escape(repr(widget))
        # The first height is a guess; the chart reports its own once it is drawn.
        frame = f'<iframe class="live" src="../live/{file}" title="{title}" loading="lazy" height="480"></iframe>'
        return {"text/html": frame, "text/plain": repr(widget)}, {}

    def question(widget: Prediction, **_: Any) -> Any:
        return {"text/html": _question(widget), "text/plain": repr(widget)}, {}

    def puzzle(widget: Puzzle, **_: Any) -> Any:
        level = widget.board.level
        page, title = f"../puzzle.html#level={level.key}", escape(f"The puzzle: {level.title}")
        frame = f'<iframe class="live" src="{page}" title="{title}" loading="lazy" height="560"></iframe>'
        text = f'{frame}<p><a href="{page}">This puzzle on a page of its own</a></p>'
        return {"text/html": text, "text/plain": repr(widget)}, {}

    for shown, as_html in ((Gantt, chart), (Prediction, question), (Puzzle, puzzle)):
        setattr(shown, "_repr_mimebundle_", as_html)  # noqa: B010
    also_for_phones(get_ipython())


def _question(widget: Prediction) -> str:
    asked = widget._asked
    data = {
        "key": asked.key,
        "question": widget.question,
        "options": widget.options,
        "answers": pack([_reply(widget, letter) for letter, _ in widget.options]),
    }
    return json_element('class="ask"', json.dumps(data))


def _reply(widget: Prediction, given: str) -> dict[str, Any]:
    """The reply to `given`, a letter as the page shows it, and what is stored: the option's letter in the file, because
    the next build may show the options in another order.
    """
    outcome = Outcome(widget._asked.read(given))
    return {"given": given, "kept": outcome.chosen, **widget._reply(outcome)}


def pack(data: Any) -> str:
    """Deflated JSON in base64."""
    return base64.b64encode(zlib.compress(json.dumps(data).encode(), 9)).decode("ascii")
