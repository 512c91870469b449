"""The page as an ASGI application: its files, its answers, and who may have them.

The files of the page contain no data and need no token. Every answer needs the token as a bearer
token. A browser keeps it in the part of the address after `#`, which it never sends, so other pages
and logs do not get it. There is no cookie that another page could use.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from importlib.resources import files
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from ..catalog.text_cleaning import written_out
from ..errors import RequestError, ShortlistError, UnknownToolError
from ..gateway.http_server import PAGE_PATH, listen
from ..gateway.request_origin import host_address, is_same_host, origin_address
from ..view import View
from .catalog_answers import CatalogAnswers
from .conversation_answers import (
    conversations_answer,
    overview_answer,
    steps_answer,
    timeline_answer,
)
from .event_history import shortened
from .search_answers import explain_tool, search_tiers
from .subject import Subject

_LOG = logging.getLogger("shortlist.inspector")
_MAX_SHOWN_CHARS = 20_000
_MAX_BODY_BYTES = 65_536
_TOKEN_BYTES = 32
_PAGE_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_RESPONSE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
#: Types of a JSON value in answers; the usual one first, which is recognised fastest.
_OBJECT_TYPES, _LIST_TYPES = (dict, Mapping), (list, tuple, set, frozenset)

Answer = Callable[[Request], Awaitable[Any]]


def page_app(subject: Subject, token: str) -> RequestGuard:
    """The page about a subject, for `listen`."""
    routes = [
        Route(f"/{path}", _file_route(name, kind)) for path, (name, kind) in _PAGE_FILES.items()
    ]
    catalog = CatalogAnswers(subject)
    for method, answers in (
        ("GET", _read_answers(subject, catalog)),
        ("POST", _write_answers(subject, catalog)),
    ):
        routes += [
            Route(f"/api/{name}", _json_route(answer), methods=[method])
            for name, answer in answers.items()
        ]
    return RequestGuard(Starlette(routes=routes), token)


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


class RequestGuard:
    """ASGI middleware: refuses requests from other origins, or without the token. It cannot raise.

    Args:
        app: the application to protect.
        token: the bearer token that every path under `/api/` needs.
    """

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if refusal := self._refusal(scope):
            status, text = refusal
            await _json({"error": text}, status)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Any) -> tuple[int, str] | None:
        """The status and the reason of a refusal; None if the request passes."""
        headers = Headers(scope=scope)
        host = host_address(headers.get("host", ""))
        if host is None:
            return 400, "a request without a valid host"
        origins = [origin_address(origin) for origin in headers.getlist("origin")]
        if any(origin is None or not is_same_host(origin, host) for origin in origins):
            return 403, "a request from another origin"
        is_answer = "/api/" in scope["path"]
        if is_answer and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "a request from another site"
        if scope["method"] not in ("GET", "HEAD"):
            if not origins:
                return 403, "a request that changes something needs an origin"
            if headers.get("content-type", "").partition(";")[0] != "application/json":
                return 415, "a request that changes something is JSON"
        if is_answer:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            is_right = compare_digest(token.encode(), self._token.encode())
            if scheme.lower() != "bearer" or not is_right:
                return 401, "needs the operator's token: open the address that the command printed"
        return None


def _read_answers(subject: Subject, catalog: CatalogAnswers) -> dict[str, Answer]:
    """Name to an answer that changes nothing. All but `start` are computed in a thread."""
    history = subject.history
    answers: dict[str, Callable[[Mapping[str, str]], Any]] = {
        "search": lambda query: search_tiers(
            subject,
            _view(subject, query),
            query.get("query", ""),
            _comma_separated(query, "tiers"),
        ),
        "explain": lambda query: _explanation(subject, query),
        "ids": lambda query: catalog.ids(query.get("text", "")),
        "servers": lambda _: catalog.servers(),
        "tools": lambda query: catalog.tools(
            query.get("server"), query.get("text", ""), _first_row(query)
        ),
        "tool": lambda query: catalog.tool(query.get("id", "")),
        "trust": lambda _: catalog.trust(),
        "review": lambda query: catalog.review(query.get("id", "")),
        "events": lambda query: timeline_answer(history, _first_row(query)),
        "conversations": lambda _: conversations_answer(history),
        "steps": lambda query: steps_answer(history, query.get("session", "")),
        "overview": lambda _: overview_answer(subject, catalog.servers()),
    }

    def in_thread(answer: Callable[[Mapping[str, str]], Any]) -> Answer:
        async def run(request: Request) -> Any:
            await subject.refresh()
            return await anyio.to_thread.run_sync(answer, request.query_params)

        return run

    async def start(_: Request) -> Any:
        await subject.refresh()
        return _start(subject)

    return {"start": start} | {name: in_thread(answer) for name, answer in answers.items()}


def _write_answers(subject: Subject, catalog: CatalogAnswers) -> dict[str, Answer]:
    """Name to an answer that changes a file (pins, example queries, servers), or a server."""

    async def approve(request: Request) -> Any:
        body = await _json_texts(request, "tool", "fingerprint")
        if "pinned" not in body:
            raise RequestError("lacks pinned")
        await subject.approve(body["tool"], body["fingerprint"], body["pinned"])
        return await anyio.to_thread.run_sync(catalog.trust)

    async def add_example(request: Request) -> Any:
        body = await _json_texts(request, "tool", "query")
        await anyio.to_thread.run_sync(subject.add_example, body["tool"], body["query"])
        return await anyio.to_thread.run_sync(_explanation, subject, body)

    async def act_on_server(request: Request) -> Any:
        body = await _json_texts(request, "name", "action")
        await subject.act_on_server(body["name"], body["action"])
        await subject.refresh()
        return await anyio.to_thread.run_sync(catalog.servers)

    return {"approve": approve, "examples": add_example, "server": act_on_server}


def _start(subject: Subject) -> dict[str, Any]:
    return {
        "name": subject.name,
        "tiers": subject.tiers,
        "profiles": {name: sorted(profile.scopes) for name, profile in subject.profiles.items()},
        "can_approve": subject.pins is not None,
        "examples": None if subject.examples is None else str(subject.examples),
    }


def _explanation(subject: Subject, query: Mapping[str, str]) -> Any:
    text, tool = query.get("query", ""), query.get("tool", "")
    return explain_tool(
        subject, _view(subject, query), text, tool, _comma_separated(query, "tiers")
    )


def _view(subject: Subject, query: Mapping[str, str]) -> View:
    scopes, allowed = _comma_separated(query, "scopes"), _comma_separated(query, "allowed")
    return subject.view(query.get("profile") or None, scopes, allowed)


def _comma_separated(query: Mapping[str, str], key: str) -> list[str] | None:
    """The names of a list with commas; None if it is absent or empty."""
    names = [name.strip() for name in str(query.get(key, "")).split(",") if name.strip()]
    return names or None


def _first_row(query: Mapping[str, str]) -> int:
    text = query.get("start", "0")
    if not text.isdecimal() or len(text) > 12:
        raise RequestError(f"start: {text!r:.40}; a whole number from 0")
    return int(text)


async def _json_texts(request: Request, *required: str) -> dict[str, str]:
    """The texts of a request's JSON object.

    Raises:
        RequestError: it is too long, no such object, or lacks a text.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            raise RequestError(f"a request of more than {_MAX_BODY_BYTES:,} bytes")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"no JSON: {error}") from error
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise RequestError("a JSON object with texts was expected")
    if missing := [name for name in required if not values.get(name)]:
        raise RequestError(f"lacks {', '.join(missing)}")
    return values


def _file_route(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files(__package__) / "page" / name).read_bytes()

    async def serve(_: Request) -> Response:
        return Response(content, media_type=media_type, headers=_RESPONSE_HEADERS)

    return serve


def _json_route(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            return _json(await answer(request))
        except UnknownToolError as error:
            return _json({"error": str(error)}, 404)
        except ShortlistError as error:
            return _json({"error": str(error)}, 400)
        except Exception:  # noqa: BLE001
            # The text of an unexpected exception may quote anything.
            _LOG.exception("%s failed", request.url.path)
            return _json({"error": "the page failed on this request; the log says why"}, 500)

    return serve


def _json(value: Any, status: int = 200) -> Response:
    content = json.dumps(as_shown(value), separators=(",", ":"))
    return Response(content, status, _RESPONSE_HEADERS, "application/json")


def as_shown(value: Any) -> Any:
    r"""A JSON value as the page shows it: every text bounded, and nothing in it hidden.

    Control and direction marks are written out, as `\u202e`. A longer text is cut, with a mark.
    """
    if isinstance(value, str):
        return written_out(shortened(value, _MAX_SHOWN_CHARS))
    if isinstance(value, _OBJECT_TYPES):
        return {as_shown(str(key)): as_shown(child) for key, child in value.items()}
    if isinstance(value, _LIST_TYPES):
        return [as_shown(child) for child in value]
    if isinstance(value, float) and not -1e300 < value < 1e300:
        return None
    return value
