"""Serves the page on this machine, for one operator."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from ..gateway.http_server import PAGE_PATH, listen
from .page_app import page_app
from .subject import Subject

_TOKEN_BYTES = 32


async def serve_page(subject: Subject, port: int, announce: Callable[[str], Any]) -> None:
    """Serve the page at 127.0.0.1 until the process is interrupted.

    Args:
        subject: what the page shows.
        port: port to listen on, 0 for a free one.
        announce: called with the address when the page can be opened. It contains the token, which
            is new with each start.
    """
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    app = Starlette(routes=[Mount(PAGE_PATH, page_app(subject, token))])
    try:
        await listen(
            app,
            "127.0.0.1",
            port,
            lambda at: announce(f"http://127.0.0.1:{at}{PAGE_PATH}/#{token}"),
        )
    finally:
        subject.engine.close()
