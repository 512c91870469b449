"""The committed queries and calls: one query for each tool, and calls that need no network."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .servers import WORK, fill

_HERE = Path(__file__).parent
#: Stands for the address of the local web site, in arguments.
SITE = "{site}"
_PAGE = b"<html><title>A page</title><body><h1>Heading</h1><p>Some text.</p></body></html>"


def queries() -> dict[str, str]:
    """Tool id to what a user would ask. Written from the definitions before any search was run."""
    lines = (_HERE / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["tool"]: row["query"] for row in map(json.loads, lines)}


def calls(server: str, work: Path, site: str) -> list[tuple[str, dict[str, Any]]]:
    """Names and arguments of a server's calls, in order; later ones see what earlier ones did.

    Args:
        server: its name.
        work: folder that it may read and write.
        site: address of the local web site.
    """
    made = []
    for line in (_HERE / "calls.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line.replace(WORK, str(work)).replace(SITE, site))
        owner, _, name = row["tool"].partition("/")
        if owner == server:
            made.append((name, row["arguments"]))
    return made


def refill(work: Path) -> None:
    """The folder as every run of the calls finds it."""
    shutil.rmtree(work, ignore_errors=True)
    fill(work)


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path.startswith("/page")
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(_PAGE) if found else 0))
        self.end_headers()
        if found:
            self.wfile.write(_PAGE)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def local_site() -> Iterator[str]:
    """A web site on the loopback with one page; its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
