"""Resources of all servers, under addresses that contain the name of the server.

A resource `repo://octo/readme` of the server `github` is `shortlist://github/repo://octo/readme` to
a client. `ui://` addresses keep their scheme, because clients know user interfaces by it:
`ui://panel` is `ui://github/panel`. Both can be converted back, and no two resources share an
address.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import anyio
import mcp.types as types
from mcp.shared.uri_template import UriTemplate
from pydantic import TypeAdapter

from ...errors import RequestError
from ..profiles.client_sessions import ClientCaller, ClientSession, permitted_servers
from ..profiles.long_results import ResultSource
from ..upstream.call import CheckedRequest, forwarded_meta
from ..upstream.fleet import Fleet
from ..upstream.listed_tools import max_result_chars
from ..upstream.server_lists import ResourcesAndPrompts
from ..upstream.skills import file_digest
from .client_requests import RequestHandlers
from .forwarding import relay

_SCHEME, _UI_SCHEME = "shortlist://", "ui://"
#: Most characters of an address that a client reads: that of a server, and the gateway's before it.
_MAX_URI_CHARS = 8_192
_READ_ANSWER: TypeAdapter[Any] = TypeAdapter(types.ReadResourceResult | types.InputRequiredResult)

Entry = TypeVar("Entry", types.Resource, types.ResourceTemplate)


def public_uri(server: str, uri: str) -> str:
    """The address of a server's resource, or template of addresses, as clients see it.

    Args:
        server: name of the server.
        uri: the server's address of the resource.

    Example:
        >>> public_uri("my files", "file:///{path}")
        'shortlist://my%20files/file:///{path}'
    """
    name = quote(server, safe="", errors="surrogatepass")
    if uri.startswith(_UI_SCHEME):
        return f"{_UI_SCHEME}{name}/{uri.removeprefix(_UI_SCHEME)}"
    return f"{_SCHEME}{name}/{uri}"


def server_and_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own address of a resource; None if clients have no such address.

    Example:
        >>> server_and_uri("shortlist://my%20files/file:///notes")
        ('my files', 'file:///notes')
    """
    for scheme, server_scheme in ((_SCHEME, ""), (_UI_SCHEME, _UI_SCHEME)):
        if uri.startswith(scheme):
            name, slash, rest = uri.removeprefix(scheme).partition("/")
            if not slash:
                return None
            return unquote(name, errors="surrogatepass"), server_scheme + rest
    return None


#: An address that clients would read through the gateway.
_GATEWAY_URI = re.compile(r"\s*(ui|shortlist)://", re.IGNORECASE)
#: Keys of `_meta` whose value is the address of a resource with a user interface.
_UI_ADDRESS_KEYS = frozenset(("resourceUri", "ui/resourceUri", "openai/outputTemplate"))


def public_meta(server: str, meta: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The `_meta` of a server with its addresses as clients see them.

    So it cannot name the user interface of another server.

    Args:
        server: name of the server.
        meta: `_meta` of a definition, a result or a part of one; None if there is none.
    """
    if meta is None:
        return None
    return {key: _with_public_addresses(server, value, key) for key, value in meta.items()}


def _with_public_addresses(server: str, value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _with_public_addresses(server, item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_public_addresses(server, item) for item in value]
    if isinstance(value, str) and (key in _UI_ADDRESS_KEYS or _GATEWAY_URI.match(value)):
        return public_uri(server, value)
    return value


def public_result(server: str, result: types.CallToolResult) -> types.CallToolResult:
    """The result of a tool with its addresses as clients see them.

    Args:
        server: name of the server that gave the result.
        result: the server's result.
    """
    content = with_public_links(server, result.content)
    return result.model_copy(update={"content": content, "meta": public_meta(server, result.meta)})


def result_for_client(
    fleet: Fleet, client: ClientSession, server: str, tool_id: str, result: types.CallToolResult
) -> types.CallToolResult:
    """The server's result of a call with addresses for the client. A long one is stored."""
    profile = client.profile
    limits = profile.result_limits(max_result_chars(fleet.listed_tools.meta(tool_id)))
    source = ResultSource(tool_ids=(tool_id,), profile_fingerprint=profile.fingerprint)
    return client.stored_results.shorten(public_result(server, result), source, limits)


def with_public_links(server: str, content: list[types.ContentBlock]) -> list[types.ContentBlock]:
    """Content of a result, with its links to resources as addresses for the client.

    Args:
        server: name of the server that gave the result.
        content: content of the result.
    """
    return [_with_public_link(server, part) for part in content]


def _with_public_link(server: str, part: types.ContentBlock) -> types.ContentBlock:
    changes: dict[str, Any] = {}
    if part.meta is not None:
        changes["meta"] = public_meta(server, part.meta)
    if isinstance(part, types.ResourceLink):
        changes["uri"] = public_uri(server, part.uri)
    if isinstance(part, types.EmbeddedResource):
        resource = part.resource
        changes["resource"] = resource.model_copy(
            update={
                "uri": public_uri(server, resource.uri),
                "meta": public_meta(server, resource.meta),
            }
        )
    return part.model_copy(update=changes) if changes else part


class Resources:
    """Answers the clients' requests for resources.

    Args:
        fleet: the servers.
        handlers: gets the handlers.
    """

    def __init__(self, fleet: Fleet, handlers: RequestHandlers) -> None:
        self._fleet = fleet
        paged = types.PaginatedRequestParams
        handlers.add("resources/list", paged, self._list)
        handlers.add("resources/templates/list", paged, self._templates)
        handlers.add("resources/read", types.ReadResourceRequestParams, self.read)

    async def _list(
        self,
        caller: ClientCaller,
        params: types.PaginatedRequestParams,  # noqa: ARG002
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                _public_entry(server, resource, "uri")
                for server, lists in self._permitted_lists(caller)
                for resource in lists.resources
            ]
        )

    async def _templates(
        self,
        caller: ClientCaller,
        params: types.PaginatedRequestParams,  # noqa: ARG002
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                _public_entry(server, template, "uri_template")
                for server, lists in self._permitted_lists(caller)
                for template in lists.templates
            ]
        )

    def _permitted_lists(self, caller: ClientCaller) -> Iterator[tuple[str, ResourcesAndPrompts]]:
        servers = self._fleet.listed_tools.servers
        for name in permitted_servers(self._fleet, caller.client):
            if name in servers:
                yield name, servers[name].safe_lists

    async def read(
        self,
        caller: ClientCaller,
        params: types.ReadResourceRequestParams,
        digest: str | None = None,
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """The content of a resource from its server, within the client's limits.

        Args:
            caller: the client's request.
            params: address as clients see it.
            digest: digest that the content must have; any when None.

        Raises:
            RequestError: no permitted server has the resource, or the content has another digest.
        """
        client = caller.client
        server, uri = self.locate_resource(client, params.uri)
        request = types.ReadResourceRequest(
            params=types.ReadResourceRequestParams(
                uri=uri, _meta=forwarded_meta(params.meta, caller)
            )
        )
        check = partial(self.require_server, client, server, params.uri)
        result = await relay(
            self._fleet, CheckedRequest(caller, server, request, check, _READ_ANSWER), params
        )
        if isinstance(result, types.InputRequiredResult):
            return result
        if digest is not None and [_digest_of(part) for part in result.contents] != [digest]:
            raise RequestError(
                f"name: the content of {uri!r:.200} is not the one that was accepted; the "
                "operator approves a changed skill (shortlist trust diff)"
            )
        contents = [
            part.model_copy(
                update={
                    "uri": params.uri if part.uri == uri else public_uri(server, part.uri),
                    "meta": public_meta(server, part.meta),
                }
            )
            for part in result.contents
        ]
        public = result.model_copy(
            update={"contents": contents, "meta": public_meta(server, result.meta)}
        )
        profile = client.profile
        source = ResultSource(tool_ids=(), profile_fingerprint=profile.fingerprint, server=server)
        shortened: types.ReadResourceResult = await anyio.to_thread.run_sync(
            client.stored_results.shorten_read, public, source, profile.result_limits()
        )
        return shortened

    def locate_resource(self, client: ClientSession, uri: str) -> tuple[str, str]:
        """The server of a resource, and the server's address of it.

        Args:
            client: session with the permissions.
            uri: address from the list; or the server's own address, if only one server can have it.

        Raises:
            RequestError: no permitted server has the resource, or several have it.
        """
        permitted = permitted_servers(self._fleet, client)
        if len(uri) > _MAX_URI_CHARS:  # subscriptions keep 10,000 of them
            raise _no_resource(uri)
        server_resource = server_and_uri(uri)
        if server_resource is not None and server_resource[0] in permitted:
            return server_resource
        owners = [name for name in permitted if self._server_has(name, uri)]
        if len(owners) == 1:
            return owners[0], uri
        if owners:
            choices = ", ".join(public_uri(name, uri) for name in owners)
            raise RequestError(f"uri: several servers have {uri!r:.200}; use one of: {choices}")
        raise _no_resource(uri)

    def require_server(self, client: ClientSession, server: str, uri: str) -> None:
        """Check again, directly before a request is sent, that the client may use the server.

        Args:
            client: session with the permissions.
            server: name of the server, from `locate_resource`.
            uri: address that the client gave.

        Raises:
            RequestError: the client may not use it any more.
        """
        if not client.permits_server(server):
            raise _no_resource(uri)

    def _server_has(self, server: str, uri: str) -> bool:
        listed = self._fleet.listed_tools.servers.get(server)
        return listed is not None and (
            any(resource.uri == uri for resource in listed.lists.resources)
            or _matches_any(listed.lists.templates, uri)
        )


def _public_entry(server: str, entry: Entry, address_field: str) -> Entry:
    """A server's resource or template with its address and `_meta` as clients see them."""
    return entry.model_copy(
        update={
            address_field: public_uri(server, getattr(entry, address_field)),
            "meta": public_meta(server, entry.meta),
        }
    )


def _digest_of(part: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(part, types.TextResourceContents):
        return file_digest(part.text.encode("utf-8", "surrogatepass"))
    try:
        return file_digest(b64decode(part.blob))
    except ValueError:
        return ""


def _no_resource(uri: str) -> RequestError:
    return RequestError(f"uri: no resource {uri!r:.200}; resources/list lists all resources")


def _matches_any(templates: Sequence[types.ResourceTemplate], uri: str) -> bool:
    """Whether an address matches a template, or is the template itself."""
    for template in templates:
        if template.uri_template == uri:
            return True
        try:
            if UriTemplate.parse(template.uri_template).match(uri) is not None:
                return True
        except ValueError:
            # An invalid template matches no address. Its server may still list it.
            continue
    return False
