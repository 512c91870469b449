"""A company's authorization server, built with authlib, before a real MCP server over HTTP.

It registers nobody. Refresh tokens are rotated, and a second use of one ends the login.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from secrets import token_urlsafe
from urllib.parse import urlencode

import anyio
import uvicorn
from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    ClientMixin,
    OAuth2Error,
    OAuth2Request,
    TokenMixin,
    grants,
)
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7636 import CodeChallenge
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .oauth_server import _call_tool, _list_tools

SCOPES = ["plans:read", "plans:write", "offline_access"]


@dataclass
class Application(ClientMixin):
    """A registered application, or one that a metadata document describes."""

    client_id: str
    redirect_uris: list[str]
    secret: str | None = None
    method: str = "none"
    any_loopback_port: bool = False

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        return self.redirect_uris[0]

    def get_allowed_scope(self, scope):
        return scope or ""

    def check_redirect_uri(self, redirect_uri):
        if self.any_loopback_port:
            host, _, path = redirect_uri.removeprefix("http://").partition("/")
            redirect_uri = f"http://{host.partition(':')[0]}/{path}"
        return redirect_uri in self.redirect_uris

    def check_client_secret(self, client_secret):
        return self.secret == client_secret

    def check_endpoint_auth_method(self, method, endpoint):
        return method == self.method

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type in ("authorization_code", "refresh_token")


@dataclass
class Code:
    """An authorization code."""

    code: str
    client_id: str
    redirect_uri: str
    scope: str
    challenge: str
    resource: str | None

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope

    def is_expired(self):
        return False


@dataclass
class Token(TokenMixin):
    """Tokens that were given out together."""

    client_id: str
    access_token: str
    refresh_token: str
    scope: str
    resource: str | None
    expires_at: float
    is_used: bool = False

    def check_client(self, client):
        return client.client_id == self.client_id

    def get_scope(self):
        return self.scope


@dataclass
class Company:
    """What the authorization server knows, and what a test sets.

    Attributes:
        applications: client id to application.
        documents: address to the metadata document that is there; None where the server takes none.
        lifetime_s: of access tokens.
        issuer: what the metadata and redirects name; None for the right one.
        token_requests: form of each request for tokens.
        authorizations: query of each page that a person saw.
        reuses: how often a refresh token came a second time.
    """

    applications: dict[str, Application] = field(default_factory=dict)
    documents: dict[str, dict] | None = None
    lifetime_s: int = 3_600
    metadata_issuer: str | None = None
    redirect_issuer: str | None = None
    base: str = ""
    token_requests: list[dict[str, str]] = field(default_factory=list)
    authorizations: list[dict[str, str]] = field(default_factory=list)
    reuses: int = 0
    codes: dict[str, Code] = field(default_factory=dict)
    tokens: list[Token] = field(default_factory=list)

    def withdraw_consent(self) -> None:
        """As a person does on the company's page of connected applications."""
        self.tokens.clear()

    async def verify_token(self, token):
        for row in self.tokens:
            if row.access_token == token and row.expires_at > time.time():
                return AccessToken(token=token, client_id=row.client_id, scopes=row.scope.split())
        return None


class _Server(AuthorizationServer):
    def __init__(self, company: Company) -> None:
        super().__init__(scopes_supported=SCOPES)
        self.company = company
        generator = BearerTokenGenerator(
            lambda **_: token_urlsafe(16),
            lambda **_: token_urlsafe(16),
            lambda client, grant_type: company.lifetime_s,
        )
        self.register_token_generator("default", generator)
        self.register_grant(_CodeGrant, [_Challenge(required=True)])
        self.register_grant(_RefreshGrant)

    def query_client(self, client_id):
        if client_id in self.company.applications:
            return self.company.applications[client_id]
        document = (self.company.documents or {}).get(client_id)
        if document is None or document["client_id"] != client_id:
            return None
        uris = document["redirect_uris"]
        return Application(client_id, uris, None, document["token_endpoint_auth_method"], True)

    def save_token(self, token, request):
        self.company.tokens.append(
            Token(
                client_id=request.client.client_id,
                access_token=token["access_token"],
                refresh_token=token["refresh_token"],
                scope=token.get("scope", ""),
                resource=request.payload.data.get("resource"),
                expires_at=time.time() + self.company.lifetime_s,
            )
        )

    def send_signal(self, name, *args, **kwargs):
        pass

    def create_oauth2_request(self, request):
        return request

    def handle_response(self, status, body, headers):
        text = body if isinstance(body, str) else json.dumps(body)
        return Response(text, status, dict(headers))


class _Challenge(CodeChallenge):
    def get_authorization_code_challenge(self, authorization_code):
        return authorization_code.challenge

    def get_authorization_code_challenge_method(self, authorization_code):
        return "S256"


_METHODS = ["none", "client_secret_basic", "client_secret_post"]


class _CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = _METHODS

    def save_authorization_code(self, code, request):
        data = request.payload.data
        self.server.company.codes[code] = Code(
            code,
            request.client.client_id,
            data["redirect_uri"],
            request.scope,
            data["code_challenge"],
            data.get("resource"),
        )

    def query_authorization_code(self, code, client):
        found = self.server.company.codes.get(code)
        return found if found is not None and found.client_id == client.client_id else None

    def delete_authorization_code(self, authorization_code):
        del self.server.company.codes[authorization_code.code]

    def authenticate_user(self, authorization_code):
        return "ada"


class _RefreshGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = _METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token):
        company = self.server.company
        for token in company.tokens:
            if token.refresh_token == refresh_token:
                if token.is_used:
                    company.reuses += 1
                    company.tokens.clear()
                    return None
                is_same = token.resource == self.request.payload.data.get("resource")
                return token if is_same else None
        return None

    def authenticate_user(self, refresh_token):
        return "ada"

    def revoke_old_credential(self, refresh_token):
        refresh_token.is_used = True
        refresh_token.expires_at = 0


def _application(company: Company) -> Starlette:
    server = _Server(company)

    def request_of(request, payload):
        uri = str(request.url).replace("http:", "https:", 1)  # authlib wants TLS
        made = OAuth2Request(request.method, uri, headers=request.headers)
        made.payload = BasicOAuth2Payload(payload)
        type(made).form = property(lambda self: self.payload.data)
        type(made).args = property(lambda self: self.payload.data)
        return made

    async def metadata(request):
        return JSONResponse(
            {
                "issuer": company.metadata_issuer or company.base,
                "authorization_endpoint": f"{company.base}/authorize",
                "token_endpoint": f"{company.base}/token",
                "registration_endpoint": f"{company.base}/register",
                "scopes_supported": SCOPES,
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": sorted(
                    {"none", *(row.method for row in company.applications.values())}
                ),
                "authorization_response_iss_parameter_supported": True,
                "client_id_metadata_document_supported": company.documents is not None,
            }
        )

    async def authorize(request):
        company.authorizations.append(dict(request.query_params))
        made = request_of(request, dict(request.query_params))
        try:
            grant = server.get_consent_grant(made, end_user="ada")
        except OAuth2Error as error:
            return JSONResponse(dict(error.get_body()), error.status_code)
        response = server.create_authorization_response(made, grant_user="ada", grant=grant)
        issuer = company.redirect_issuer or company.base
        response.headers["location"] += f"&iss={issuer}"
        return response

    async def token(request):
        form = dict(await request.form())
        company.token_requests.append(form)
        await anyio.sleep(0.05)  # so that two renewals can be under way
        response = server.create_token_response(request_of(request, form))
        if "json" not in request.headers["accept"]:  # as GitHub
            return Response(urlencode(json.loads(response.body)), response.status_code)
        return response

    async def register(request):
        return JSONResponse({"error": "access_denied"}, 403)

    return Starlette(
        routes=[
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/authorize", authorize),
            Route("/token", token, methods=["POST"]),
            Route("/register", register, methods=["POST"]),
        ]
    )


@asynccontextmanager
async def company_server():
    """The address of an MCP server, and the company that it asks for a login."""
    company = Company()
    company_socket, mcp_socket = socket.socket(), socket.socket()
    for made in (company_socket, mcp_socket):
        made.bind(("127.0.0.1", 0))
    company.base = f"http://127.0.0.1:{company_socket.getsockname()[1]}"
    address = f"http://127.0.0.1:{mcp_socket.getsockname()[1]}/mcp"
    server = Server("plans", on_list_tools=_list_tools, on_call_tool=_call_tool)
    settings = AuthSettings(
        issuer_url=f"{company.base}/",  # with a slash, as Google's servers
        resource_server_url=address,
        validate_token_resource=False,
    )
    apps = {
        company_socket: _application(company),
        mcp_socket: server.streamable_http_app(auth=settings, token_verifier=company),
    }
    fronts = {
        listener: uvicorn.Server(uvicorn.Config(app, log_level="error"))
        for listener, app in apps.items()
    }
    async with anyio.create_task_group() as group:
        for listener, front in fronts.items():
            group.start_soon(front.serve, [listener])
        while not all(front.started for front in fronts.values()):
            await anyio.sleep(0.01)
        try:
            yield address, company
        finally:
            for front in fronts.values():
                front.should_exit = True
