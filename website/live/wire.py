"""What Python says to the page before it has an answer: what is printed and shown, and how widgets change.

Every message is a dict of plain data; bytes travel as base64.
"""

from __future__ import annotations

import json
from collections.abc import Callable

_posts: list[Callable[[str], None]] = []


def connect(post: Callable[[str], None]) -> None:
    """From now on `post` takes each message, as JSON."""
    _posts[:] = [post]


def send(**message: object) -> None:
    """To the page, if there is one."""
    for post in _posts:
        post(json.dumps(message, default=str))
