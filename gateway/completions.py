"""Completions of arguments, from the server of the prompt or template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp.types as types
from mcp import Client
from mcp.server.lowlevel import Server
from pydantic import TypeAdapter

from .caller import Caller, Context, forwarded_meta
from .failures import answered
from .fleet import Fleet
from .patience import Patience
from .prompts import Prompts
from .resources import Resources
from .sessions import ClientSession

_COMPLETED = TypeAdapter(types.CompleteResult)


class Completions:
    """Answers the clients' requests for completions of an argument.

    Args:
        fleet: the servers.
        client_of: returns the session of a request.
        resources: finds the server of a template.
        prompts: finds the server of a prompt.
        server: the gateway's MCP server; the handler is added to it.
    """

    def __init__(
        self,
        fleet: Fleet,
        client_of: Callable[[Context], ClientSession],
        resources: Resources,
        prompts: Prompts,
        server: Server[Any],
    ) -> None:
        self._fleet = fleet
        self._client_of = client_of
        self._resources = resources
        self._prompts = prompts
        server.add_request_handler(
            "completion/complete", types.CompleteRequestParams, answered(self._complete)
        )

    async def _complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        client = self._client_of(context)
        reference: types.PromptReference | types.ResourceTemplateReference
        if isinstance(params.ref, types.PromptReference):
            server, name = self._prompts.place(client, params.ref.name)
            reference = types.PromptReference(name=name)
        else:
            server, uri = self._resources.place(client, params.ref.uri)
            reference = types.ResourceTemplateReference(uri=uri)
        caller = Caller(context, client)
        meta = forwarded_meta(params.meta, caller)
        asked = params.model_copy(update={"ref": reference, "meta": meta})
        request = types.CompleteRequest(params=asked)
        upstream = self._fleet.upstreams[server]

        async def send_if_able(client: Client, patience: Patience) -> types.CompleteResult:
            if client.server_capabilities.completions is None:
                return types.CompleteResult(completion=types.Completion(values=[]))
            return await upstream.requests.send(client, patience, request, _COMPLETED, caller)

        return await upstream.request(send_if_able, caller=caller)
