"""Prompts of all servers, under names that contain the name of the server.

And completions of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from pydantic import TypeAdapter

from ...errors import RequestError
from ...loaders.providers import provider_name
from ..profiles.client_sessions import ClientSession, permitted_servers
from ..profiles.long_results import ResultSource
from ..upstream.call import Call, Caller, RequestContext, forwarded_meta
from ..upstream.fleet import Fleet
from ..upstream.server_lists import ResourcesAndPrompts
from .forwarding import relay, with_safe_errors
from .resources import Resources, public_meta, with_public_links

#: Most characters of a prompt's name. Clients add a prefix.
_MAX_NAME_CHARS = 60


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
        client_of: returns the session of a request.
        server: the gateway's MCP server; the handlers are added to it.
    """

    def __init__(
        self,
        fleet: Fleet,
        client_of: Callable[[RequestContext], ClientSession],
        server: Server[Any],
    ) -> None:
        self._fleet = fleet
        self._client_of = client_of
        server.add_request_handler(
            "prompts/list", types.PaginatedRequestParams, with_safe_errors(self._list)
        )
        server.add_request_handler(
            "prompts/get", types.GetPromptRequestParams, with_safe_errors(self.get)
        )

    async def _list(
        self,
        context: RequestContext,
        params: types.PaginatedRequestParams,  # noqa: ARG002
    ) -> types.ListPromptsResult:
        by_name = {
            name: prompt.model_copy(update={"name": name, "meta": public_meta(server, prompt.meta)})
            for name, server, prompt in self._prompts(
                self._client_of(context), self._fleet.listed_tools.safe_resources_and_prompts
            )
        }
        return types.ListPromptsResult(prompts=list(by_name.values()))

    async def get(
        self, context: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """A prompt from its server, within the client's limits.

        Args:
            context: context of the client's request.
            params: name from the list of prompts, and its arguments.
        """
        client = self._client_of(context)
        call = _PromptCall(self, client, Caller(context, client), params)
        result = await relay(self._fleet, call, params)
        if isinstance(result, types.InputRequiredResult):
            return result
        return await anyio.to_thread.run_sync(_within_limits, result, call.server, client)

    def locate_prompt(self, client: ClientSession, name: str) -> tuple[str, types.Prompt]:
        """The server of a prompt, and the server's definition of it.

        Args:
            client: session with the permissions.
            name: name from the list of prompts.

        Raises:
            RequestError: no permitted server has such a prompt.
        """
        for prompt_name, server, prompt in self._prompts(
            client, self._fleet.listed_tools.resources_and_prompts
        ):
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
        self, client: ClientSession, lists_by_server: Mapping[str, ResourcesAndPrompts]
    ) -> Iterator[tuple[str, str, types.Prompt]]:
        for server in permitted_servers(self._fleet, client):
            for prompt in lists_by_server[server].prompts if server in lists_by_server else ():
                yield public_name(server, prompt.name), server, prompt


class _PromptCall(Call[types.GetPromptResult]):
    """A client's request for a prompt.

    Args:
        prompts: finds its server.
        client: the client's session.
        caller: who asks, and how the client is asked back.
        params: parameters of the request.

    Raises:
        RequestError: no permitted server has such a prompt.
    """

    answer_type = TypeAdapter(types.GetPromptResult | types.InputRequiredResult)

    def __init__(
        self,
        prompts: Prompts,
        client: ClientSession,
        caller: Caller,
        params: types.GetPromptRequestParams,
    ) -> None:
        server, self._prompt = prompts.locate_prompt(client, params.name)
        super().__init__(caller, server)
        self.operation = f"prompt {self._prompt.name}"
        self.subject = f"{self.operation} {sorted((params.arguments or {}).items())}"
        self.reads_only = True
        self._prompts = prompts
        self._client = client
        self._params = params

    def check_before_sending(self) -> None:
        self._prompts.require_prompt(self._client, self._params.name, self.server, self._prompt)

    def request(
        self, answers: types.InputResponses | None, state: str | None
    ) -> types.ClientRequest:
        params = types.GetPromptRequestParams(
            name=self._prompt.name,
            arguments=self._params.arguments,
            input_responses=answers,
            request_state=state,
            _meta=forwarded_meta(self._params.meta, self.caller),
        )
        return types.GetPromptRequest(params=params)


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
        client_of: returns the session of a request.
        resources: finds the server of a template.
        prompts: finds the server of a prompt.
        server: the gateway's MCP server; the handler is added to it.
    """

    def __init__(
        self,
        fleet: Fleet,
        client_of: Callable[[RequestContext], ClientSession],
        resources: Resources,
        prompts: Prompts,
        server: Server[Any],
    ) -> None:
        self._fleet = fleet
        self._client_of = client_of
        self._resources = resources
        self._prompts = prompts
        server.add_request_handler(
            "completion/complete", types.CompleteRequestParams, with_safe_errors(self._complete)
        )

    async def _complete(
        self, context: RequestContext, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        client = self._client_of(context)
        call = _CompletionCall(
            self._resources, self._prompts, client, Caller(context, client), params
        )
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


class _CompletionCall(Call[types.CompleteResult]):
    """A client's request for completions of an argument.

    Args:
        resources: finds the server of a template.
        prompts: finds the server of a prompt.
        client: the client's session.
        caller: who asks, and how the client is asked back.
        params: parameters of the request.

    Raises:
        RequestError: no permitted server has such a prompt or resource.
    """

    answer_type = TypeAdapter(types.CompleteResult)

    def __init__(
        self,
        resources: Resources,
        prompts: Prompts,
        client: ClientSession,
        caller: Caller,
        params: types.CompleteRequestParams,
    ) -> None:
        self._reference: types.PromptReference | types.ResourceTemplateReference
        self._require: Callable[[], None]
        if isinstance(params.ref, types.PromptReference):
            name = params.ref.name
            server, prompt = prompts.locate_prompt(client, name)
            self._reference = types.PromptReference(name=prompt.name)
            self._require = partial(prompts.require_prompt, client, name, server, prompt)
        else:
            server, uri = resources.locate_resource(client, params.ref.uri)
            self._reference = types.ResourceTemplateReference(uri=uri)
            self._require = partial(resources.require_server, client, server, params.ref.uri)
        super().__init__(caller, server)
        self.operation, self.reads_only = "complete", True
        self._params = params

    def check_before_sending(self) -> None:
        self._require()

    def request(
        self,
        answers: types.InputResponses | None,  # noqa: ARG002 - no server asks before it completes
        state: str | None,  # noqa: ARG002
    ) -> types.ClientRequest:
        meta = forwarded_meta(self._params.meta, self.caller)
        params = self._params.model_copy(update={"ref": self._reference, "meta": meta})
        return types.CompleteRequest(params=params)
