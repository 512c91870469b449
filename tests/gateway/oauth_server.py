"""A real MCP server over HTTP that wants OAuth, and its authorization server, on this machine."""

from __future__ import annotations

import socket
import time
from contextlib import asynccontextmanager
from secrets import token_hex

import anyio
import mcp.types as types
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.lowlevel import Server
from mcp.shared.auth import OAuthToken


class Authorization:
    """An authorization server in memory; every person consents at once.

    Attributes:
        lifetime_s: of access tokens.
        logins: how often a person was asked.
        renewals: how often a token was renewed.
    """

    def __init__(self) -> None:
        self.lifetime_s = 3_600
        self.logins = self.renewals = 0
        self._clients, self._codes, self._access, self._refresh = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self._clients.get(client_id)

    async def register_client(self, client_info):
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        self.logins += 1
        code = AuthorizationCode(
            code=token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self._codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self._codes[authorization_code.code]
        return self._tokens(client.client_id)

    async def load_refresh_token(self, client, refresh_token):
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        self.renewals += 1
        del self._refresh[refresh_token.token]
        return self._tokens(client.client_id)

    async def load_access_token(self, token):
        return self._access.get(token)

    async def verify_token(self, token):
        found = self._access.get(token)
        return found if found is not None and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self._access.clear()
        self._refresh.clear()

    def _tokens(self, client_id):
        ends = int(time.time() + self.lifetime_s)
        access = AccessToken(token=token_hex(16), client_id=client_id, scopes=[], expires_at=ends)
        refresh = RefreshToken(token=token_hex(16), client_id=client_id, scopes=[])
        self._access[access.token], self._refresh[refresh.token] = access, refresh
        return OAuthToken(
            access_token=access.token,
            token_type="Bearer",
            expires_in=self.lifetime_s,
            refresh_token=refresh.token,
        )


async def _list_tools(context, params):
    schema = {"type": "object", "properties": {}}
    return types.ListToolsResult(tools=[types.Tool(name="secret_plans", input_schema=schema)])


async def _call_tool(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="world peace")])


@asynccontextmanager
async def protected_server():
    """The address of a server, and its authorization server."""
    authorization = Authorization()
    server = Server("plans", on_list_tools=_list_tools, on_call_tool=_call_tool)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    settings = AuthSettings(
        issuer_url=base,
        resource_server_url=f"{base}/mcp",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    )
    app = server.streamable_http_app(
        auth=settings, token_verifier=authorization, auth_server_provider=authorization
    )
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")
    front = uvicorn.Server(config)
    async with anyio.create_task_group() as group:
        group.start_soon(front.serve)
        while not front.started:
            await anyio.sleep(0.01)
        try:
            yield f"{base}/mcp", authorization
        finally:
            front.should_exit = True
