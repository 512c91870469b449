"""Prompts of all servers, under names that contain the name of the server.

And completions of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import anyio
import mcp.types as types
from pydantic import TypeAdapter

from ...errors import RequestError
from ...loaders.providers import provider_name
from ..profiles.client_sessions import ClientCaller, ClientSession, permitted_servers
from ..profiles.long_results import ResultSource
from ..upstream.call import CheckedRequest, forwarded_meta
from ..upstream.fleet import Fleet
from ..upstream.listed_tools import ListedServer
from .client_requests import RequestHandlers
from .forwarding import relay
from .resources import Resources, public_meta, with_public_links

#: Most characters of a prompt's name. Clients add a prefix.
_MAX_NAME_CHARS = 60
_PROMPT_ANSWER: TypeAdapter[Any] = TypeAdapter(types.GetPromptResult | types.InputRequiredResult)
_COMPLETION_ANSWER: TypeAdapter[Any] = TypeAdapter(types.CompleteResult)


def public_name(server: str, prompt: str) -> str:
    """The stable and unique name of a server's prompt for clients.

    Args:
        server: name of the server.
        prompt: the server's name of the prompt.

    Example:
        >>> public_name("github", "review")
        'github__review'
    """
    return provider_name(
        f"{quote(server, safe='', errors='surrogatepass')}/{prompt}", _MAX_NAME_CHARS
    )


class Prompts:
    """Answers the clients' requests for prompts.

    Args:
        fleet: the servers.
        handlers: gets the handlers.
    """

    def __init__(self, fleet: Fleet, handlers: RequestHandlers) -> None:
        self._fleet = fleet
        handlers.add("prompts/list", types.PaginatedRequestParams, self._list)
        handlers.add("prompts/get", types.GetPromptRequestParams, self.get)

    async def _list(
        self,
        caller: ClientCaller,
        params: types.PaginatedRequestParams,  # noqa: ARG002
    ) -> types.ListPromptsResult:
        by_name = {
            name: prompt.model_copy(update={"name": name, "meta": public_meta(server, prompt.meta)})
            for name, server, prompt in self._prompts(caller.client, _safe_prompts)
        }
        return types.ListPromptsResult(prompts=list(by_name.values()))

    async def get(
        self, caller: ClientCaller, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """A prompt from its server, within the client's limits.

        Args:
            caller: the client's request.
            params: name from the list of prompts, and its arguments.

        Raises:
            RequestError: no permitted server has such a prompt.
        """
        client = caller.client
        server, prompt = self.locate_prompt(client, params.name)
        request = types.GetPromptRequest(
            params=types.GetPromptRequestParams(
                name=prompt.name,
                arguments=params.arguments,
                _meta=forwarded_meta(params.meta, caller),
            )
        )
        check = partial(self.require_prompt, client, params.name, server, prompt)
        result = await relay(
            self._fleet, CheckedRequest(caller, server, request, check, _PROMPT_ANSWER), params
        )
        if isinstance(result, types.InputRequiredResult):
            return result
        return await anyio.to_thread.run_sync(_within_limits, result, server, client)

    def locate_prompt(self, client: ClientSession, name: str) -> tuple[str, types.Prompt]:
        """The server of a prompt, and the server's definition of it.

        Args:
            client: session with the permissions.
            name: name from the list of prompts.

        Raises:
            RequestError: no permitted server has such a prompt.
        """
        for prompt_name, server, prompt in self._prompts(client, _all_prompts):
            if prompt_name == name:
                return server, prompt
        raise RequestError(f"name: no prompt {name!r:.200}; prompts/list lists all prompts")

    def require_prompt(
        self, client: ClientSession, name: str, server: str, prompt: types.Prompt
    ) -> None:
        """Check a prompt again, directly before a request for it is sent.

        Args:
            client: session with the permissions.
            name: name that the client gave.
            server: name of the server, from `locate_prompt`.
            prompt: definition of the prompt, from `locate_prompt`.

        Raises:
            RequestError: the client may not use it any more, or its definition has changed.
        """
        if self.locate_prompt(client, name) != (server, prompt):
            raise RequestError(
                f"name: the definition of the prompt {name!r:.200} has changed; read it with "
                "prompts/list, then try again"
            )

    def _prompts(
        self, client: ClientSession, prompts_of: Callable[[ListedServer], Sequence[types.Prompt]]
    ) -> Iterator[tuple[str, str, types.Prompt]]:
        servers = self._fleet.listed_tools.servers
        for name in permitted_servers(self._fleet, client):
            for prompt in prompts_of(servers[name]) if name in servers else ():
                yield public_name(name, prompt.name), name, prompt


def _safe_prompts(listed: ListedServer) -> Sequence[types.Prompt]:
    return listed.safe_lists.prompts


def _all_prompts(listed: ListedServer) -> Sequence[types.Prompt]:
    return listed.lists.prompts


def _within_limits(
    result: types.GetPromptResult, server: str, client: ClientSession
) -> types.GetPromptResult:
    """A server's prompt with the addresses for the client, within the client's limits."""
    contents = types.CallToolResult(
        content=with_public_links(server, [message.content for message in result.messages]),
        _meta=public_meta(server, result.meta),
    )
    profile = client.profile
    limits = profile.result_limits()
    source = ResultSource(tool_ids=(), profile_fingerprint=profile.fingerprint, server=server)
    limited = client.stored_results.shorten(contents, source, limits)
    roles: list[types.Role] = [message.role for message in result.messages]
    if limited.content is not contents.content:
        # Its parts are no longer those of the messages.
        roles = ["user"] * len(limited.content)
    messages = [
        types.PromptMessage(role=role, content=part)
        for role, part in zip(roles, limited.content, strict=True)
    ]
    description = result.description
    if description is not None and not limits.fits(description):
        description = None
    return types.GetPromptResult(description=description, messages=messages, _meta=limited.meta)


#: Most completions of an argument, and most characters of one.
_MAX_COMPLETIONS, _MAX_COMPLETION_CHARS = 100, 1_000


class Completions:
    """Answers the clients' requests for completions of an argument.

    Args:
        fleet: the servers.
        handlers: gets the handler.
        resources: finds the server of a template.
        prompts: finds the server of a prompt.
    """

    def __init__(
        self, fleet: Fleet, handlers: RequestHandlers, resources: Resources, prompts: Prompts
    ) -> None:
        self._fleet = fleet
        self._resources = resources
        self._prompts = prompts
        handlers.add("completion/complete", types.CompleteRequestParams, self._complete)

    async def _complete(
        self, caller: ClientCaller, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        call = self._request(caller, params)
        server_client = await self._fleet.upstreams[call.server].connect()
        if server_client.server_capabilities.completions is None:
            return types.CompleteResult(completion=types.Completion(values=[]))
        result = await self._fleet.send(call)
        assert isinstance(result, types.CompleteResult)
        values = result.completion.values[:_MAX_COMPLETIONS]
        completion = result.completion.model_copy(
            update={"values": [value for value in values if len(value) <= _MAX_COMPLETION_CHARS]}
        )
        return types.CompleteResult(completion=completion)

    def _request(
        self, caller: ClientCaller, params: types.CompleteRequestParams
    ) -> CheckedRequest[types.CompleteResult]:
        """The request for the server of a prompt or a template.

        Raises:
            RequestError: no permitted server has such a prompt or resource.
        """
        client = caller.client
        reference: types.PromptReference | types.ResourceTemplateReference
        check: Callable[[], None]
        if isinstance(params.ref, types.PromptReference):
            name = params.ref.name
            server, prompt = self._prompts.locate_prompt(client, name)
            reference = types.PromptReference(name=prompt.name)
            check = partial(self._prompts.require_prompt, client, name, server, prompt)
        else:
            server, uri = self._resources.locate_resource(client, params.ref.uri)
            reference = types.ResourceTemplateReference(uri=uri)
            check = partial(self._resources.require_server, client, server, params.ref.uri)
        changes = {"ref": reference, "meta": forwarded_meta(params.meta, caller)}
        request = types.CompleteRequest(params=params.model_copy(update=changes))
        return CheckedRequest(caller, server, request, check, _COMPLETION_ANSWER)
