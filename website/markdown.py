"""Markdown as rendered in the pages: tables, headings with anchors as code hosts make them, links to pages."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

_FORMATTER = HtmlFormatter(nowrap=True)


def code(text: str, language: str = "python") -> str:
    """Coloured code as HTML."""
    try:
        lexer = get_lexer_by_name(language or "text")
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return f'<pre class="code"><code>{highlight(text, lexer, _FORMATTER)}</code></pre>'


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def html(text: str, at: str, pages: dict[str, str]) -> str:
    """Markdown as HTML for the page of the file `at`; links to files that have a page lead to the page.

    pages: file -> page, both from the root of the course.
    """
    markdown = MarkdownIt("commonmark", {"html": True, "highlight": None}).enable(["table", "strikethrough"])
    markdown.renderer.rules["fence"] = lambda tokens, i, *_: code(tokens[i].content, tokens[i].info.strip())  # type: ignore[attr-defined]
    tokens = markdown.parse(text)
    _adapt(tokens, at, pages)
    written = str(markdown.renderer.render(tokens, markdown.options, {}))
    return re.sub(r"<th[^>]*></th>", "<td></td>", written)  # a heading without words is not one


def address(link: str, at: str, pages: dict[str, str]) -> str:
    """Where a link in the file `at` leads on the site: to a page, or, if there is none, to the file itself."""
    if re.match(r"[a-z]+:|#", link):
        return link
    place, hash_, anchor = link.partition("#")
    target = normpath(str(PurePosixPath(at).parent / place))
    here = PurePosixPath(pages[at]).parent
    return relpath(pages.get(target, target), str(here)) + hash_ + anchor


def _adapt(tokens: list[Any], at: str, pages: dict[str, str]) -> None:
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrs["id"] = slug(
                "".join(each.content for each in tokens[i + 1].children if each.type in ("text", "code_inline"))
            )
        if token.type == "table_open":
            token.attrs["class"] = "wide"
        for name in ("href", "src"):
            if name in token.attrs:
                token.attrs[name] = address(str(token.attrs[name]), at, pages)
        if token.children:
            _adapt(token.children, at, pages)
