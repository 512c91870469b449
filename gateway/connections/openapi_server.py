"""An HTTP API with an OpenAPI document as an MCP server inside the gateway.

The document says which requests there are, the configuration says where they go. So requests, with
their secrets, go to the configured host only, whatever the document or an answer says.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import anyio
import httpx2
import mcp.types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.shared.memory import create_client_server_memory_streams

from ... import __version__
from ...catalog import Tool, read_tools
from ...catalog.operation import Operation
from ...catalog.readers.openapi_request import READING_METHODS
from ...catalog.request_body import is_json
from ...catalog.security import (
    RequestCredentials,
    SecurityScheme,
    all_schemes,
    needed_names,
    usable_schemes,
)
from ...errors import CatalogError, OperationError
from ...untrusted import MAX_LOOP_CHARS, MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES
from ...untrusted.json_bytes import ValueLimit, parsed_json, repaired_json
from ...untrusted.text_bytes import (
    DamagedTextError,
    DamageLimit,
    charset,
    decoded_text,
    is_utf8,
    media_type,
)
from .credential_sender import (
    CREDENTIALS_KEY,
    ServerAddress,
    UnsafeAddressError,
    sending_client,
    url_without_user,
)
from .http_client import decode_in_turns
from .masking import CredentialMask, redacted
from .server_log import ServerLog
from .server_spec import ServerSpec

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

#: Keys of `_meta` for the gateway: in a tool, what MCP has no field for; in a list, its problems.
TOOL_META_KEY, PROBLEMS_META_KEY = "shortlist/tool", "shortlist/problems"
#: Milliseconds after which the document is looked at again.
_LIST_VALID_MS = 60_000
#: Most problems of a document that are passed on.
_MAX_PROBLEMS = 100
#: Redirects that are followed, all of them on the configured host.
_MAX_REDIRECTS = 5
#: Most bytes that are read of an error's answer, and most characters that are passed on.
_MAX_ERROR_BYTES, _MAX_ERROR_CHARS = 64_000, 4_000
#: Seconds that the server has to end before it is cancelled.
_END_TIMEOUT_S = 2.0
#: Headers of requests for which neither the call nor the configuration has another value.
_DEFAULT_HEADERS = {
    "Accept": "application/json, */*;q=0.8",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": f"shortlist/{__version__}",
}
#: Statuses of answers to requests without the right credentials.
_UNAUTHORIZED = ("401", "403")
#: Media types of text, besides `text/`. Office documents are `application/vnd.openxmlformats-...`.
_TEXT_TYPE = re.compile(
    r"[/+](?:x-)?(?:xml|yaml|(?:java|ecma)script|www-form-urlencoded|graphql|csv)\Z"
)


@asynccontextmanager
async def openapi_transport(
    spec: ServerSpec, log: ServerLog, mask: CredentialMask
) -> AsyncIterator[TransportStreams]:
    """A connection to the MCP server for an OpenAPI document.

    Args:
        spec: server with document, address and headers.
        log: gets a line for each request.
        mask: masks the credentials of the server in its answers.
    """
    # Calls have a time limit of their own.
    timeout = httpx2.Timeout(None, connect=spec.start_timeout_s)
    # All clients of the gateway share the connection: no cookie of one is sent for another.
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    async with (
        sending_client(
            spec, mask, timeout=timeout, cookies=no_cookies, on_response=decode_in_turns
        ) as http,
        create_client_server_memory_streams() as (client_streams, server_streams),
        anyio.create_task_group() as group,
    ):
        server = OpenApiServer(spec, http, log, mask).server
        ended = anyio.Event()

        async def serve() -> None:
            try:
                await server.run(*server_streams, server.create_initialization_options())
            finally:
                ended.set()

        group.start_soon(serve)
        try:
            yield client_streams
        finally:
            for stream in (*client_streams, server_streams[1]):
                await stream.aclose()
            with anyio.move_on_after(_END_TIMEOUT_S, shield=True):
                await ended.wait()
            group.cancel_scope.cancel()


class OpenApiServer:
    """The tools of an OpenAPI document, and the requests of their calls.

    Args:
        spec: server with document, address and headers.
        http: sends the requests with the credentials of the server.
        log: gets a line for each request.
        mask: masks the credentials of the server in its answers.

    Attributes:
        server: the MCP server.
    """

    def __init__(
        self, spec: ServerSpec, http: httpx2.AsyncClient, log: ServerLog, mask: CredentialMask
    ) -> None:
        self._spec = spec
        self._mask = mask
        self._http = http
        self._log = log
        #: Time and size of the document when it was read, and its tools and problems.
        self._document_version: tuple[int, int] | None = None
        self._tools: list[Tool] = []
        self._problems: list[str] = []
        self._operations: dict[str, Operation] = {}
        self.server: Server[Any] = Server(
            spec.name, on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )

    async def _list_tools(
        self,
        context: Any,  # noqa: ARG002
        params: types.PaginatedRequestParams | None,  # noqa: ARG002
    ) -> types.ListToolsResult:
        try:
            await anyio.to_thread.run_sync(self._read_changed_document)
        except CatalogError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        self._operations = {tool.name: tool.operation for tool in self._tools if tool.operation}
        return types.ListToolsResult(
            tools=[_mcp_tool(tool) for tool in self._tools],
            ttl_ms=_LIST_VALID_MS,
            _meta={PROBLEMS_META_KEY: list(self._problems)},
        )

    def _read_changed_document(self) -> None:
        """Read the document if the file has changed.

        Raises:
            CatalogError: the file cannot be read, or is no OpenAPI document.
        """
        path = Path(self._spec.openapi or "")
        try:
            state = path.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CatalogError(f"{path}: cannot be read: {reason}") from error
        version = (state.st_mtime_ns, state.st_size)
        if version != self._document_version:
            self._tools, self._problems = _read_document(path, self._spec)
            self._document_version = version

    async def _call_tool(
        self,
        context: Any,  # noqa: ARG002
        params: types.CallToolRequestParams,
    ) -> types.CallToolResult:
        operation = self._operations.get(params.name)
        if operation is None:
            return _error_result(f"{self._spec.name} has no operation {params.name!r:.200}")
        start, line = monotonic(), f"{operation.method} {operation.path:.200}"
        result: types.CallToolResult | MCPError
        try:
            request = self._request(operation, params.arguments or {})
            result, status = await self._send(request)
            if status in _UNAUTHORIZED and (problem := _missing_credential(operation, self._spec)):
                result.content.append(types.TextContent(type="text", text=problem))
        except OperationError as error:
            result, status = _error_result(str(error)), "not sent"
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            result, status = self._failure(operation, line, error), type(error).__name__
        milliseconds = (monotonic() - start) * 1e3
        await anyio.to_thread.run_sync(
            self._write_log, f"{line} {status} {milliseconds:.0f} ms\n".encode()
        )
        if isinstance(result, MCPError):
            raise result
        return result

    def _write_log(self, line: bytes) -> None:
        try:
            self._log.write(line)
        except OSError:
            return  # a full disk must not stop calls

    def _request(self, operation: Operation, arguments: Mapping[str, Any]) -> httpx2.Request:
        base_url = _base_url(operation, self._spec)
        request = operation.request(arguments, base_url=base_url)
        for name, value in _DEFAULT_HEADERS.items():
            request.headers.setdefault(name, value)
        if schemes := _schemes_to_send(operation, self._spec):
            credentials = self._spec.revealed_credentials()
            request.extensions[CREDENTIALS_KEY] = RequestCredentials.of(schemes, credentials)
        return request

    async def _send(self, request: httpx2.Request) -> tuple[types.CallToolResult, str]:
        """The result of a request, and its status for the log."""
        own_address = _configured_address(self._spec)
        for _ in range(_MAX_REDIRECTS + 1):
            response = await self._http.send(request, stream=True, follow_redirects=False)
            try:
                next_request = response.next_request
                if next_request is None:
                    return await self._result(response), str(response.status_code)
            finally:
                await response.aclose()
            try:
                address = ServerAddress.of(str(next_request.url))
            except UnsafeAddressError as error:
                reason = f"the server redirects, which is not followed: {error}"
                return _error_result(reason), "redirect refused"
            if address != own_address:
                reason = (
                    f"the server redirects to another host, {address!s:.200}, which is not "
                    "followed; if it is right, an operator gives that address as `url`"
                )
                return _error_result(reason), "redirect refused"
            request = next_request
        return _error_result(f"the server redirects more than {_MAX_REDIRECTS} times"), "redirects"

    async def _result(self, response: httpx2.Response) -> types.CallToolResult:
        status = response.status_code
        if not response.is_success:
            body, _ = await _read_body(response, _MAX_ERROR_BYTES)
            text = redacted(_text(body, _content_type(response)), self._spec)[:_MAX_ERROR_CHARS]
            return _error_result(f"HTTP {status} {_status_phrase(status)}\n{text}".strip())
        values = ValueLimit()
        body, is_whole = await _read_body(response, MAX_MESSAGE_BYTES, values)
        if not is_whole:
            return _error_result(
                f"the server gave an answer of more than {MAX_MESSAGE_BYTES:,} bytes"
            )
        content_type = _content_type(response)
        if is_json(media_type(content_type)) and values.is_exceeded:
            return _error_result(
                f"the server gave an answer of more than {MAX_MESSAGE_VALUES:,} values"
            )
        try:
            if len(body) <= MAX_LOOP_CHARS:
                return _success_result(body, content_type, status, self._mask)
            return await anyio.to_thread.run_sync(
                _success_result, body, content_type, status, self._mask
            )
        except DamagedTextError as error:
            return _error_result(f"the server gave an answer of {error}")

    def _failure(
        self, operation: Operation, line: str, error: Exception
    ) -> types.CallToolResult | MCPError:
        """The result of a request without an answer; an error if it may have had an effect."""
        reason = redacted(str(error) or type(error).__name__, self._spec)[:_MAX_ERROR_CHARS]
        text = f"{line}: no answer of server {self._spec.name!r}: {reason}"
        is_unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
        if is_unsent or operation.method in READING_METHODS:
            return _error_result(f"{text}; try again, or use another tool")
        effect = "it is not known whether the call had an effect: check that before you call again"
        return MCPError(types.INTERNAL_ERROR, f"{text}; {effect}")


def _read_document(path: Path, spec: ServerSpec) -> tuple[list[Tool], list[str]]:
    """The tools of a document, and a line for each operation that is left out."""
    read = read_tools(path, format="openapi", server=spec.name, strict=False)
    problems = [f"{path.name}: {row.where}: {row.field}: {row.reason}" for row in read.rejected]
    problems += [note.removeprefix(f"{path}: ") for note in read.notes]
    tools = []
    for tool in read.tools:
        operation = tool.operation
        if operation is None:
            continue
        if problem := _address_problem(operation, spec):
            problems.append(f"operation {tool.name!r:.80} is left out: {problem}")
            continue
        tools.append(_without_configured_arguments(tool, operation, spec))
    problems = [*_credential_problems([tool.operation for tool in tools], spec), *problems]
    return tools, problems[:_MAX_PROBLEMS]


def _credential_problems(operations: list[Operation | None], spec: ServerSpec) -> Iterator[str]:
    """Credentials that operations need and the entry does not have, and the other way round."""
    known_operations = [operation for operation in operations if operation is not None]
    missing = Counter(_missing_credential(operation, spec) for operation in known_operations)
    for problem, count in missing.items():
        if problem:
            yield f"{count:,} of {len(operations):,} operations: {problem}"
    scheme_names = dict.fromkeys(
        scheme.name for operation in known_operations for scheme in all_schemes(operation.security)
    )
    for name in spec.credentials:
        if name not in scheme_names:
            names = ", ".join(repr(scheme_name)[:80] for scheme_name in scheme_names) or "none"
            yield f"credentials.{name:.80}: no operation uses this scheme; those used: {names}"


def _missing_credential(operation: Operation, spec: ServerSpec) -> str:
    """Which credentials an operation needs that the entry does not have; "" if it has them."""
    if _schemes_to_send(operation, spec) is not None:
        return ""
    names = needed_names(operation.security)
    key = f"`credentials` in the entry of server {spec.name!r}"
    return (
        f"the document asks for a credential; give {names} in {key}"
        if names
        else f"the document asks for a credential that {key} cannot give; use `headers`"
    )


def _schemes_to_send(operation: Operation, spec: ServerSpec) -> tuple[SecurityScheme, ...] | None:
    """The schemes to send a request with; None if a credential is missing.

    What the entry's headers or address contain is not sent again.
    """
    parts = urlsplit(spec.url or "")
    headers = {name.lower() for name in spec.headers}
    if "@" in parts.netloc:
        headers.add("authorization")
    query_names = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}

    def is_sent(scheme: SecurityScheme) -> bool:
        place, name = scheme.place
        if place == "query":
            return name in query_names
        return ("cookie" if place == "cookie" else name) in headers

    return usable_schemes(operation.security, spec.credentials, is_sent)


def _without_configured_arguments(tool: Tool, operation: Operation, spec: ServerSpec) -> Tool:
    """The tool without the arguments that the configuration gives: headers and credentials."""
    configured = {("header", name.lower()) for name in spec.headers}
    configured |= {scheme.place for scheme in _schemes_to_send(operation, spec) or ()}
    names = frozenset(
        row.argument
        for row in operation.arguments
        if (row.place, row.name.lower() if row.place == "header" else row.name) in configured
        or (row.place == "cookie" and ("header", "cookie") in configured)
    )
    if not names:
        return tool
    schema = tool.input_schema
    schema["properties"] = {
        name: child for name, child in schema["properties"].items() if name not in names
    }
    schema["required"] = [name for name in schema.get("required", ()) if name not in names]
    row = tool.to_dict() | {"input_schema": schema, "operation": operation.without(names)}
    return Tool.from_dict(row)


def _mcp_tool(tool: Tool) -> types.Tool:
    """The tool as MCP lists it."""
    operation = None if tool.operation is None else tool.operation.to_dict()
    meta = {TOOL_META_KEY: {"operation": operation, "tags": list(tool.tags)}}
    return types.Tool.model_validate(tool.to_mcp() | {"_meta": meta})


def _base_url(operation: Operation, spec: ServerSpec) -> str:
    """The address before an operation's path."""
    url = url_without_user(spec.url or "")
    if not operation.has_own_server:
        return url
    own_url = urljoin(url, operation.server or "").partition("?")[0]
    query = urlsplit(url).query
    return f"{own_url}?{query}" if query else own_url


def _address_problem(operation: Operation, spec: ServerSpec) -> str:
    """Why no request goes to the address of an operation; "" if requests go there."""
    try:
        address = ServerAddress.of(_base_url(operation, spec))
    except (UnsafeAddressError, ValueError) as error:
        return f"the document's server for it: {error}"
    if address != _configured_address(spec):
        return (
            f"the document has another server for it, {address!s:.200}; add an entry with that "
            "`url`"
        )
    return ""


def _configured_address(spec: ServerSpec) -> ServerAddress:
    return ServerAddress.of(url_without_user(spec.url or ""))


async def _read_body(
    response: httpx2.Response, max_bytes: int, values: ValueLimit | None = None
) -> tuple[bytes, bool]:
    """The decoded body, and whether it is all of it. Its values are counted."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if values is not None:
            values.feed(chunk)
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), False
    return bytes(body), True


def _content_type(response: httpx2.Response) -> str:
    content_type: str = response.headers.get("content-type", "")
    return content_type


def _success_result(
    body: bytes, content_type: str, status: int, mask: CredentialMask
) -> types.CallToolResult:
    """The result of a successful request. A large one is made in a thread.

    Raises:
        DamagedTextError: the answer is no text in its encoding.
    """
    kind = media_type(content_type)
    if not body:
        return _text_result(f"HTTP {status} {_status_phrase(status)}")
    if is_json(kind):
        text = _text(body, content_type)
        json_text = repaired_json(text.encode(), DamageLimit())
        try:
            value = parsed_json(json_text)
        except ValueError:
            return _text_result(text)
        return _text_result(text, value if isinstance(value, dict) else None)
    if _is_text(body, kind):
        return _text_result(_text(body, content_type))
    # What is inside base64 is not masked later.
    data = base64.b64encode(mask.content(body)).decode()
    if kind.startswith("image/"):
        return types.CallToolResult(
            content=[types.ImageContent(type="image", data=data, mime_type=kind[:200])]
        )
    if kind.startswith("audio/"):
        return types.CallToolResult(
            content=[types.AudioContent(type="audio", data=data, mime_type=kind[:200])]
        )
    contents = types.BlobResourceContents(
        uri="openapi:answer", mime_type=kind[:200] or None, blob=data
    )
    return types.CallToolResult(
        content=[types.EmbeddedResource(type="resource", resource=contents)]
    )


def _is_text(body: bytes, kind: str) -> bool:
    if kind.startswith(("image/", "audio/")):
        return kind.endswith("xml")
    if kind.startswith("text/") or _TEXT_TYPE.search(kind):
        return True
    return not kind and is_utf8(body)


def _text(body: bytes, content_type: str) -> str:
    return decoded_text(body, charset(content_type))


def _text_result(text: str, value: dict[str, Any] | None = None) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=value)


def _error_result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
