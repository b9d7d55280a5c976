"""A file server for the site that behaves like code hosts: a sub-path, gzip, and caching with revalidation."""

from __future__ import annotations

import gzip
import http.server
from email.utils import formatdate
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

PREFIX = "/gpipe_edu/"
"""The site is not at the root of its host."""

MINUTES_IN_CACHE = 10
"""As on GitHub Pages."""

_SMALLER = (".html", ".js", ".mjs", ".css", ".json", ".svg", ".wasm", ".txt", ".ipynb", ".md")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves `directory` below PREFIX."""

    extensions_map: dict[str, str] = {  # noqa: RUF012
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".whl": "application/zip",
    }
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send one file, compressed if the browser accepts that; 304 if it has it already."""
        place = self.path.partition("?")[0]
        if place == "/":
            self._say(302, {"Location": PREFIX})
            return
        path = Path(self.translate_path("/" + place.removeprefix(PREFIX)))
        if path.is_dir():
            if not place.endswith("/"):
                self._say(301, {"Location": place + "/"})
                return
            path /= "index.html"
        if not place.startswith(PREFIX) or not path.is_file():
            self._say(404, {}, b"not here")
            return
        changed = formatdate(path.stat().st_mtime, usegmt=True)
        headers = {"Last-Modified": changed, "Cache-Control": f"max-age={60 * MINUTES_IN_CACHE}"}
        if self.headers.get("If-Modified-Since") == changed:
            self._say(304, headers)
            return
        headers["Content-Type"] = self.guess_type(str(path))
        packs = path.suffix in _SMALLER and "gzip" in self.headers.get("Accept-Encoding", "")
        if packs:
            headers["Content-Encoding"] = "gzip"
        self._say(200, headers, _content(path, path.stat().st_mtime, packs))

    def _say(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """No log: it would not be read."""


@lru_cache(maxsize=2000)
def _content(path: Path, changed: float, packed: bool) -> bytes:
    content = path.read_bytes()
    return gzip.compress(content, 6, mtime=0) if packed else content


def server(folder: Path, port: int = 0, kind: type[Handler] = Handler) -> http.server.ThreadingHTTPServer:
    """A server of `folder`, ready for `serve_forever`; port 0 takes a free one. kind: answers the requests."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), partial(kind, directory=str(folder)))
