"""The page as an ASGI application: its files, its answers, and who may have them.

The files of the page contain no data and need no token. Every answer needs the token as a bearer
token. A browser keeps it in the part of the address after `#`, which it never sends, so other pages
and logs do not get it. There is no cookie that another page could use.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from importlib.resources import files
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..catalog.text_cleaning import written_out
from ..errors import RequestError, ShortlistError, UnknownToolError
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

AnswerRequest = Callable[[Request], Awaitable[Any]]


def page_app(subject: Subject, token: str) -> RequestGuard:
    """The page about a subject, for `listen`.

    Args:
        subject: what the page shows.
        token: bearer token of the operator.
    """
    answers = _Answers(subject)
    routes = [
        Route(f"/{path}", _file_route(name, kind)) for path, (name, kind) in _PAGE_FILES.items()
    ]
    routes += [Route(f"/api/{name}", _json_route(a)) for name, a in answers.read_answers().items()]
    routes += [
        Route(f"/api/{name}", _json_route(answer), methods=["POST"])
        for name, answer in answers.write_answers().items()
    ]
    return RequestGuard(Starlette(routes=routes), token)


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


class _Answers:
    """The answers about one subject, by name.

    Args:
        subject: what the page shows.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._catalog_answers = CatalogAnswers(subject)

    def read_answers(self) -> Mapping[str, AnswerRequest]:
        """Answers that change nothing."""
        return {
            "start": self._start,
            "search": self._search,
            "explain": self._explain,
            "ids": self._in_thread(lambda query: self._catalog_answers.ids(query.get("text", ""))),
            "servers": self._in_thread(lambda _: self._catalog_answers.servers()),
            "tools": self._in_thread(
                lambda query: self._catalog_answers.tools(
                    query.get("server"), query.get("text", ""), _first_row(query.get("start", "0"))
                )
            ),
            "tool": self._in_thread(lambda query: self._catalog_answers.tool(query.get("id", ""))),
            "trust": self._in_thread(lambda _: self._catalog_answers.trust()),
            "review": self._in_thread(
                lambda query: self._catalog_answers.review(query.get("id", ""))
            ),
            "events": self._in_thread(
                lambda query: timeline_answer(
                    self._subject.history, _first_row(query.get("start", "0"))
                )
            ),
            "conversations": self._in_thread(lambda _: conversations_answer(self._subject.history)),
            "steps": self._in_thread(
                lambda query: steps_answer(self._subject.history, query.get("session", ""))
            ),
            "overview": self._in_thread(
                lambda _: overview_answer(self._subject, self._catalog_answers.servers())
            ),
        }

    def write_answers(self) -> Mapping[str, AnswerRequest]:
        """Answers that change a file (pins, example queries, servers), or a server's state."""
        return {
            "approve": self._approve,
            "examples": self._add_example,
            "server": self._act_on_server,
        }

    def _in_thread(self, answer: Callable[[Mapping[str, str]], Any]) -> AnswerRequest:
        async def run(request: Request) -> Any:
            await self._subject.refresh()
            return await anyio.to_thread.run_sync(answer, request.query_params)

        return run

    async def _start(self, _: Request) -> Any:
        subject = self._subject
        return {
            "name": subject.name,
            "tiers": subject.tiers,
            "profiles": {
                name: sorted(profile.scopes) for name, profile in subject.profiles().items()
            },
            "can_approve": subject.pins is not None,
            "examples": None if subject.examples is None else str(subject.examples),
        }

    async def _search(self, request: Request) -> Any:
        await self._subject.refresh()
        query = request.query_params
        return await anyio.to_thread.run_sync(
            lambda: search_tiers(
                self._subject,
                self._view(query),
                query.get("query", ""),
                _comma_separated(query, "tiers"),
            )
        )

    async def _explain(self, request: Request) -> Any:
        await self._subject.refresh()
        return await anyio.to_thread.run_sync(self._explanation, request.query_params)

    def _explanation(self, query: Mapping[str, str]) -> Any:
        text, tool = query.get("query", ""), query.get("tool", "")
        return explain_tool(
            self._subject, self._view(query), text, tool, _comma_separated(query, "tiers")
        )

    async def _approve(self, request: Request) -> Any:
        body = await _json_texts(request, "tool", "fingerprint")
        if "pinned" not in body:
            raise RequestError("lacks pinned")
        await self._subject.approve(body["tool"], body["fingerprint"], body["pinned"])
        return await anyio.to_thread.run_sync(self._catalog_answers.trust)

    async def _add_example(self, request: Request) -> Any:
        body = await _json_texts(request, "tool", "query")
        add = self._subject.add_example
        await anyio.to_thread.run_sync(add, body["tool"], body["query"])
        return await anyio.to_thread.run_sync(self._explanation, body)

    async def _act_on_server(self, request: Request) -> Any:
        body = await _json_texts(request, "name", "action")
        await self._subject.act_on_server(body["name"], body["action"])
        await self._subject.refresh()
        return await anyio.to_thread.run_sync(self._catalog_answers.servers)

    def _view(self, query: Mapping[str, str]) -> View:
        return self._subject.view(
            query.get("profile") or None,
            _comma_separated(query, "scopes"),
            _comma_separated(query, "allowed"),
        )


def _comma_separated(query: Mapping[str, str], key: str) -> list[str] | None:
    """The names of a list with commas; None if it is absent or empty."""
    names = [name.strip() for name in str(query.get(key, "")).split(",") if name.strip()]
    return names or None


def _first_row(text: str) -> int:
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


def _json_route(answer: AnswerRequest) -> Callable[[Request], Awaitable[Response]]:
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
    if isinstance(value, Mapping):
        return {as_shown(str(key)): as_shown(child) for key, child in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_shown(child) for child in value]
    if isinstance(value, float) and not -1e300 < value < 1e300:
        return None
    return value
