"""Resources of all servers, under addresses that contain the server's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.shared.uri_template import UriTemplate
from pydantic import TypeAdapter

from ..errors import RequestError
from .addresses import public_uri, server_and_uri
from .caller import Caller, Context, forwarded_meta
from .failures import answered
from .fleet import Fleet
from .permitted_servers import permitted_servers
from .relay import relay
from .sessions import ClientSession

_READ: TypeAdapter[types.ReadResourceResult | types.InputRequiredResult] = TypeAdapter(
    types.ReadResourceResult | types.InputRequiredResult
)


class Resources:
    """Answers the clients' requests for resources.

    Args:
        fleet: the servers.
        client_of: returns the session of a request.
        server: the gateway's MCP server; the handlers are added to it.
    """

    def __init__(
        self, fleet: Fleet, client_of: Callable[[Context], ClientSession], server: Server[Any]
    ) -> None:
        self._fleet = fleet
        self._client_of = client_of
        paged = types.PaginatedRequestParams
        server.add_request_handler("resources/list", paged, answered(self._list))
        server.add_request_handler("resources/templates/list", paged, answered(self._templates))
        server.add_request_handler(
            "resources/read", types.ReadResourceRequestParams, answered(self._read)
        )

    async def _list(
        self,
        context: Context,
        params: types.PaginatedRequestParams,  # noqa: ARG002
    ) -> types.ListResourcesResult:
        names = permitted_servers(self._fleet, self._client_of(context))
        return types.ListResourcesResult(
            resources=[
                one.model_copy(update={"uri": public_uri(name, one.uri)})
                for name in names
                if name in self._fleet.listed.offers
                for one in self._fleet.listed.offers[name].resources
            ]
        )

    async def _templates(
        self,
        context: Context,
        params: types.PaginatedRequestParams,  # noqa: ARG002
    ) -> types.ListResourceTemplatesResult:
        names = permitted_servers(self._fleet, self._client_of(context))
        return types.ListResourceTemplatesResult(
            resource_templates=[
                one.model_copy(update={"uri_template": public_uri(name, one.uri_template)})
                for name in names
                if name in self._fleet.listed.offers
                for one in self._fleet.listed.offers[name].templates
            ]
        )

    async def _read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        client = self._client_of(context)
        server, uri = self.place(client, params.uri)
        caller = Caller(context, client)
        meta = forwarded_meta(params.meta, caller)

        async def send(
            answers: types.InputResponses | None, state: str | None
        ) -> types.ReadResourceResult | types.InputRequiredResult:
            asked = types.ReadResourceRequestParams(
                uri=uri, input_responses=answers, request_state=state, _meta=meta
            )
            upstream = self._fleet.upstreams[server]
            request = types.ReadResourceRequest(params=asked)
            return await upstream.forward(request, _READ, caller)

        result = await relay(
            self._fleet, caller, params, server=server, subject=f"read {uri}", send=send
        )
        if isinstance(result, types.InputRequiredResult):
            return result
        contents = [
            one.model_copy(
                update={"uri": params.uri if one.uri == uri else public_uri(server, one.uri)}
            )
            for one in result.contents
        ]
        return result.model_copy(update={"contents": contents})

    def place(self, client: ClientSession, uri: str) -> tuple[str, str]:
        """The server of a resource, and the server's address of it.

        Args:
            client: session with the permissions.
            uri: address from the list; or the server's own address, if only one server can have it.

        Raises:
            RequestError: no permitted server has the resource, or several have it.
        """
        permitted = permitted_servers(self._fleet, client)
        found = server_and_uri(uri)
        if found is not None and found[0] in permitted:
            return found
        having = [name for name in permitted if self._has(name, uri)]
        if len(having) == 1:
            return having[0], uri
        if having:
            choices = ", ".join(public_uri(name, uri) for name in having)
            raise RequestError(f"uri: several servers have {uri!r:.200}; use one of: {choices}")
        raise RequestError(f"uri: no resource {uri!r:.200}; resources/list lists all resources")

    def _has(self, server: str, uri: str) -> bool:
        offers = self._fleet.listed.offers.get(server)
        return offers is not None and (
            any(one.uri == uri for one in offers.resources) or _fits(offers.templates, uri)
        )


def _fits(templates: Sequence[types.ResourceTemplate], uri: str) -> bool:
    """Whether an address matches a template, or is the template itself."""
    for one in templates:
        if one.uri_template == uri:
            return True
        try:
            if UriTemplate.parse(one.uri_template).match(uri) is not None:
                return True
        except ValueError:
            # An invalid template matches no address. Its server may still list it.
            continue
    return False
