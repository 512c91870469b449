"""A server or an authorization server misuses a login: nothing reaches other hosts or the terminal.

The hosts are real HTTP servers, and the login is the one of `shortlist auth login`.
"""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp.client.auth import AuthorizationCodeResult
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.errors import ConfigError
from shortlist.gateway.connections.credential_sender import (
    ServerAddress,
    UnsafeAddressError,
    sending_client,
)
from shortlist.gateway.connections.login import log_in
from shortlist.gateway.connections.masking import CredentialMask
from shortlist.gateway.connections.oauth import InteractiveLogin, LoginStorage
from shortlist.gateway.connections.server_spec import LoginSettings, ServerSpec
from shortlist.gateway.upstream.server_connection import ServerState, UpstreamError

from .fleets import call, running, text_of, until
from .hostile_oauth_server import JSON, METADATA, PROTECTED, TOKENS, hostile_host
from .test_oauth import MemoryKeyring

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def kept(monkeypatch):
    keyring = MemoryKeyring()
    monkeypatch.setattr("keyring.core._keyring_backend", keyring)
    return keyring.kept


@pytest.fixture
def hosts():
    with hostile_host() as server, hostile_host() as other:
        yield server, other


def reached(host, **more) -> ServerSpec:
    return ServerSpec(name="one", transport="http", url=host.address, **more)


async def browser(page: str) -> None:
    async with httpx2.AsyncClient(follow_redirects=True) as http:
        await http.get(page)


def leads_to(server, other) -> None:
    """The server says that another host is its authorization server."""
    server.pages[PROTECTED] = server.pages[f"{PROTECTED}/mcp"] = (
        200,
        JSON,
        {"resource": server.address, "authorization_servers": [other.base]},
    )


async def test_a_server_that_refuses_the_token_leads_the_gateway_to_no_other_host(
    tmp_path, kept, hosts
):
    server, other = hosts
    await log_in(reached(server), browser)
    stored = dict(kept)
    leads_to(server, other)
    server.token, count = "another", len(server.requests)
    async with running(tmp_path, reached(server)) as fleet:
        await until(lambda: fleet.upstreams["one"].state is ServerState.AWAITING_CONSENT)
        for _ in range(3):
            with pytest.raises(UpstreamError, match="auth login one"):
                await fleet.upstreams["one"].connect()
    assert set(server.paths()[count:]) == {"/mcp"}
    assert other.requests == []
    assert kept == stored


async def test_a_missing_scope_leads_the_gateway_to_no_other_host(tmp_path, kept, hosts):
    server, other = hosts
    await log_in(reached(server), browser)
    stored = dict(kept)
    async with running(tmp_path, reached(server)) as fleet:
        await until(lambda: "one/quick" in fleet.engine.catalog)
        leads_to(server, other)
        challenge = f'Bearer error="insufficient_scope", resource_metadata="{other.base}/any"'
        server.pages["/mcp"] = (403, {"WWW-Authenticate": challenge}, b"")
        count = len(server.requests)
        with pytest.raises(UpstreamError):
            await call(fleet, "one/quick")
    assert set(server.paths()[count:]) == {"/mcp"}
    assert other.requests == []
    assert kept == stored


@pytest.mark.parametrize(
    "answer", ["redirect", "login page", "garbage", "endless dates", "a huge token"]
)
async def test_a_renewal_that_goes_wrong_gives_the_token_to_nobody(tmp_path, kept, hosts, answer):
    server, other = hosts
    await log_in(reached(server), browser)
    for name, text in kept.items():
        kept[name] = json.dumps({**json.loads(text), "expires_at": 1.0})
    answers = {
        "redirect": (307, {"Location": f"{other.base}/token"}, b""),
        "login page": (200, {"Content-Type": "text/html"}, b"<form action=/>" * 100_000),
        "garbage": (200, JSON, b"\x00\xff" * 100_000),
        "endless dates": (200, JSON, {**TOKENS, "expires_in": 10**400}),
        "a huge token": (200, JSON, {**TOKENS, "access_token": "t" * 1_000_000}),
    }
    server.pages["/token"] = answers[answer]
    server.token = "another"
    async with running(tmp_path, reached(server)) as fleet:
        await until(
            lambda: (
                fleet.upstreams["one"].state in (ServerState.AWAITING_CONSENT, ServerState.FAILED)
            )
        )
    assert "/token" in server.paths()
    assert other.requests == []
    assert all(len(text) < 10_000 for text in kept.values())


async def test_a_token_that_ends_at_once_opens_no_second_page(tmp_path, kept, hosts):
    server, _ = hosts
    server.pages["/token"] = (200, JSON, {**TOKENS, "expires_in": -1})
    with pytest.raises(ConfigError, match="a second login at once"):
        await log_in(reached(server), browser)
    assert server.paths().count("/authorization") == 1
    count = len(server.requests)
    async with running(tmp_path, reached(server)) as fleet:
        await until(lambda: fleet.upstreams["one"].state is ServerState.AWAITING_CONSENT)
    assert server.paths()[count:].count("/token") < 10


async def test_with_a_login_no_call_waits_for_another_one(tmp_path, kept, hosts):
    server, _ = hosts
    await log_in(reached(server), browser)
    async with running(tmp_path, reached(server)) as fleet, anyio.create_task_group() as group:
        await until(lambda: "one/slow" in fleet.engine.catalog)
        group.start_soon(call, fleet, "one/slow")
        await until(lambda: any(b'"slow"' in body for *_, body in server.requests))
        with anyio.fail_after(30):
            assert text_of(await call(fleet, "one/quick")) == "done"
        server.slow.set()


async def test_the_secrets_of_a_server_go_to_no_other_host(kept, hosts):
    server, other = hosts
    leads_to(server, other)
    other.pages[METADATA] = (200, JSON, other.metadata(token_endpoint=f"{server.base}/token"))
    await log_in(reached(server, headers={"X-Api-Key": "key-123456"}), browser)
    assert {"/registration", "/authorization"} <= set(other.paths())
    assert "key-123456" not in repr(other.requests)
    calls = [headers for _, path, headers, _ in server.requests if path == "/mcp"]
    assert {headers["x-api-key"] for headers in calls} == {"key-123456"}


APPLICATION = LoginSettings(client_id="app-1", client_secret="app-secret-VALUE")


async def test_the_secret_of_an_application_goes_to_no_second_authorization_server(kept, hosts):
    server, other = hosts
    await log_in(reached(server, login=APPLICATION), browser)
    server.token, count = "another", len(server.requests)
    leads_to(server, other)
    with pytest.raises(ConfigError, match=f"was {server.base}/? at the last login and is") as error:
        await log_in(reached(server, login=APPLICATION), browser)
    assert other.base in str(error.value)
    assert "auth logout one" in str(error.value)
    assert {path for path in other.paths() if not path.startswith("/.well-known")} == set()
    assert set(server.paths()[count:]) & {"/token", "/authorization"} == set()


async def test_the_secret_of_an_application_is_not_in_a_message(kept, hosts):
    server, _ = hosts
    server.pages["/token"] = (401, {}, b"unknown client app-1 with app-secret-VALUE")
    with pytest.raises(ConfigError, match="unknown client app-1 with \\*\\*\\*"):
        await log_in(reached(server, login=APPLICATION), browser)


METADATA_CHANGES = {
    "a script as page": {"authorization_endpoint": "javascript:alert(1)//%1b[2J"},
    "a file as page": {"authorization_endpoint": "file:///etc/passwd"},
    "no addresses": {"token_endpoint": None, "authorization_endpoint": ["\x1b[2J"]},
    "an issuer of another": {"issuer": "https://evil.example/\x1b[2J\u202e"},
    "much": {"scopes_supported": ["x" * 1_000] * 5_000},
    "odd support": {"client_id_metadata_document_supported": {"\x1b[2J": []}},
}


@pytest.mark.parametrize("change", METADATA_CHANGES)
async def test_odd_metadata_opens_no_odd_page_and_fails_in_one_line(kept, hosts, change):
    server, _ = hosts
    page = (200, JSON, server.metadata(**METADATA_CHANGES[change]))
    server.pages[METADATA] = server.pages["/.well-known/openid-configuration"] = page
    pages = []

    async def show(page: str) -> None:
        pages.append(page)
        raise ConfigError("nobody looks at it")

    settings = LoginSettings(client_id="app-1", client_metadata_url="https://x.example/a.json")
    with pytest.raises(ConfigError) as error:
        await log_in(reached(server, login=settings), show)
    assert all(page.startswith(f"{server.base}/") and len(page) < 20_000 for page in pages)
    assert len(str(error.value)) < 2_000
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", str(error.value))
    assert "/token" not in server.paths()


AUTH = "https://auth.example"
NAMED = {
    f"{kind}_endpoint": f"{AUTH}/{kind}" for kind in ("authorization", "token", "registration")
}
LOGINS = {
    "as it should be": ({}, AUTH, None),
    "a page over http": ({"authorization_endpoint": "http://auth.example/a"}, AUTH, "plain http"),
    "a token over http": ({"token_endpoint": "http://auth.example/t"}, AUTH, "plain http"),
    "a page of this machine": ({"authorization_endpoint": "https://[::1]/x"}, AUTH, "machine"),
    "a local page": ({"authorization_endpoint": "http://localhost:8080/x"}, AUTH, "plain http"),
    "a local token": ({"token_endpoint": "http://127.0.0.1:2375/containers"}, AUTH, "plain http"),
    "a local registration": ({"registration_endpoint": "http://127.0.0.1/x"}, AUTH, "plain http"),
    "a private registration": ({"registration_endpoint": "https://10.0.0.1/x"}, AUTH, "machine"),
    "an authorization server here": ({}, "https://a.localhost", "machine"),
    "one in the network": ({}, "http://192.168.1.1/admin", "plain http"),
    "documents of the cloud": (
        {},
        'https://x" resource_metadata="http://169.254.169.254/latest',
        "plain http",
    ),
    "documents of a number": ({}, 'https://x" resource_metadata="https://2130706433/x', "machine"),
    "documents of a file": ({}, 'https://x" resource_metadata="file:///etc/passwd', "file:"),
}


@pytest.mark.parametrize("case", LOGINS)
async def test_a_login_leads_neither_to_plain_text_nor_into_the_users_network(kept, case):
    changes, issuer, problem = LOGINS[case]
    issuer, _, challenge = issuer.partition('" ')
    server, pages, requests = "https://plans.example/mcp", [], []
    metadata = {"issuer": issuer, **NAMED, **changes}

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        requests.append(request.url)
        if path.startswith(PROTECTED):
            row = {"resource": server, "authorization_servers": [issuer]}
            return httpx2.Response(200, json=row)
        if path.startswith(METADATA):
            return httpx2.Response(200, json=metadata)
        if path == "/registration":
            return httpx2.Response(201, json={**json.loads(request.content), "client_id": "me"})
        if path == "/token":
            return httpx2.Response(200, json=TOKENS)
        if "authorization" in request.headers:
            return httpx2.Response(200)
        return httpx2.Response(401, headers={"WWW-Authenticate": f'Bearer {challenge}"'})

    async def show(page: str) -> None:
        pages.append(page)

    async def redirected() -> AuthorizationCodeResult:
        state = parse_qs(urlsplit(pages[-1]).query)["state"][0]
        return AuthorizationCodeResult(code="1", state=state)

    async def read(response: httpx2.Response) -> None:
        pass

    spec = ServerSpec(name="one", transport="http", url=server)
    flow = InteractiveLogin(
        spec, LoginStorage(spec), "http://localhost:1/callback", show, redirected
    )
    client = sending_client(spec, CredentialMask(spec), on_response=read, auth=flow)
    client._transport, client._mounts = httpx2.MockTransport(answer), {}
    async with client:
        if problem is None:
            assert (await client.post(server, json={})).status_code == 200
        else:
            with pytest.raises(UnsafeAddressError, match=f"its login leads to .*{problem}"):
                await client.post(server, json={})
    assert {url.host for url in requests} <= {"plans.example", "auth.example"}
    assert {url.scheme for url in requests} == {"https"}
    assert all(page.startswith(f"{AUTH}/authorization?") for page in pages)


@pytest.mark.parametrize(
    ("server", "other", "is_permitted"),
    [
        ("http://127.0.0.1:1", "http://localhost:2", True),
        ("http://10.0.0.1:1", "http://10.0.0.2", True),
        ("http://10.0.0.1:1", "http://127.1", False),
        ("https://10.0.0.1:1", "https://169.254.169.254", False),
        ("http://plans.example", "http://[::ffff:192.168.1.1]", False),
        ("http://plans.example", "http://0.0.0.0:80", False),
        ("http://plans.example", "http://auth.example", True),
        ("http://plans.example", "https://auth.example", True),
        ("https://plans.example", "https://8.8.8.8", True),
    ],
)
def test_a_server_leads_no_nearer_to_the_user_than_it_is(server, other, is_permitted):
    given, named = ServerAddress.of(server), ServerAddress.of(other)
    if is_permitted:
        given.check_leads_to(named)
    else:
        with pytest.raises(UnsafeAddressError):
            given.check_leads_to(named)


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b2J\u202e"
REFUSALS = {
    "a long text": (400, {}, f"{ESCAPES}no".encode() * 100_000),
    "no text": (400, {}, b"\xff\xfe\x1b[2J"),
    "another type": (200, JSON, {"access_token": ["\x1b[2J"] * 10_000}),
    "a lifetime that is no number of seconds": (200, JSON, {**TOKENS, "expires_in": 10**400}),
    "a token of two lines": (200, JSON, {**TOKENS, "access_token": "a\r\nX-Evil: b\x1b[2J"}),
    "a redirect": (307, {"Location": "http://127.0.0.2:1/token"}, b""),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_failed_login_is_one_short_line_on_the_terminal(
    tmp_path, kept, hosts, refusal, monkeypatch, caplog
):
    server, _ = hosts
    server.pages["/token"] = REFUSALS[refusal]
    shown = auth_login(tmp_path, server, monkeypatch)
    assert shown.exit_code == 1
    assert "the login failed: " in shown.output
    assert len(shown.output) < 2_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown.output)
    assert isinstance(shown.exception, SystemExit)


@pytest.mark.parametrize(
    "redirect",
    [
        "?error=" + "%1b%5b2J" * 5_000,
        "?code=1&state=another",
        "?code=1",
        "?code=1&state=STATE&iss=http://evil.example",
    ],
)
def test_a_redirect_of_somebody_else_logs_nobody_in(tmp_path, kept, hosts, redirect, monkeypatch):
    server, _ = hosts

    answer = server.answer

    def misleading(method, path, headers, body):
        status, more, text = answer(method, path, headers, body)
        if status == 302:
            back, _, query = more["Location"].partition("?")
            state = query.rpartition("state=")[2]
            return 302, {"Location": back + redirect.replace("STATE", state)}, text
        return status, more, text

    server.answer = misleading
    shown = auth_login(tmp_path, server, monkeypatch)
    assert shown.exit_code == 1
    assert len(shown.output) < 2_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown.output)
    assert "/token" not in server.paths()
    assert all("access-1234" not in text for text in kept.values())


async def test_the_end_of_a_token_is_a_date(tmp_path, kept, hosts):
    server, _ = hosts
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"url": server.address}}}))
    server.pages["/token"] = (200, JSON, {**TOKENS, "expires_in": 10**12})
    await log_in(reached(server), browser)
    shown = CliRunner().invoke(app, ["auth", "status", "--config", str(config)])
    assert shown.exit_code == 0, shown.output
    ((name, text),) = kept.items()
    kept[name] = json.dumps({**json.loads(text), "expires_at": 1e300})
    assert LoginStorage(reached(server)).login.tokens is None


def auth_login(tmp_path, server, monkeypatch):
    """What `shortlist auth login` shows, with a browser that follows the pages."""
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"url": server.address}}}))

    def launch(page: str) -> None:
        with httpx2.Client(follow_redirects=True) as http:
            http.get(page)

    monkeypatch.setattr("typer.launch", launch)
    return CliRunner().invoke(app, ["auth", "login", "one", "--config", str(config)])
