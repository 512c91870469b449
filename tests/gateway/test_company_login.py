"""Logins at an authorization server that registers nobody: given clients, documents, renewals."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.errors import ConfigError
from shortlist.gateway.connections.connection_errors import ConsentNeeded
from shortlist.gateway.connections.login import log_in
from shortlist.gateway.connections.oauth import LoginStorage, stored_login_auth
from shortlist.gateway.connections.server_spec import LoginSettings, ServerSpec

from .company_login import Application, company_server
from .test_oauth import browser, kept  # noqa: F401 - a fixture

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]
DOCUMENT = "https://ada.example/shortlist.json"
SECRET = "app-secret-VALUE"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def plans(url: str, **login) -> ServerSpec:
    return ServerSpec(name="plans", transport="http", url=url, login=LoginSettings(**login))


@asynccontextmanager
async def registered_application(method: str = "client_secret_basic"):
    """A server, the company, and the settings of an application that is registered there."""
    async with company_server() as (url, company):
        port = free_port()
        company.applications["app-1"] = Application(
            "app-1", [f"http://localhost:{port}/callback"], SECRET, method
        )
        yield company, plans(url, client_id="app-1", client_secret=SECRET, callback_port=port)


async def test_a_refused_registration_says_what_to_register():
    async with company_server() as (url, company):
        with pytest.raises(ConfigError, match=r'localhost:PORT/callback.*"clientId".*403'):
            await log_in(plans(url), browser)
        assert company.authorizations == []


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_given_client_logs_in_and_its_secret_stays_in_the_configuration(kept, method):  # noqa: F811
    async with registered_application(method) as (company, spec):
        company.documents = {}
        login = {**dict(spec.login), "scopes": ("plans:read",), "client_metadata_url": DOCUMENT}
        spec = spec.model_copy(update={"login": LoginSettings(**login)})
        result = await log_in(spec, browser)
        assert (result.tool_count, result.client_kind, result.asked_person) == (
            1,
            "configured",
            True,
        )
        assert company.authorizations[0]["scope"] == "plans:read"
        assert SECRET not in repr(kept)
        again = await log_in(spec, browser)
        assert not again.asked_person
        # The login is of this application: with another id there is none.
        assert stored_login_auth(plans(spec.url or "", client_id="app-2")) is None


async def test_a_server_that_takes_documents_gets_the_hosted_one():
    async with company_server() as (url, company):
        printed = CliRunner().invoke(app, ["auth", "metadata", DOCUMENT])
        company.documents = {DOCUMENT: json.loads(printed.stdout)}
        result = await log_in(plans(url, client_metadata_url=DOCUMENT), browser)
        assert result.client_kind == "metadata document"
        assert company.authorizations[0]["client_id"] == DOCUMENT


async def test_gateways_renew_an_ended_login_once(kept):  # noqa: F811
    async with registered_application() as (company, spec):
        await log_in(spec, browser)
        earlier = stored_login_auth(spec)
        ((name, text),) = kept.items()
        kept[name] = json.dumps({**json.loads(text), "expires_at": 1.0})
        statuses = []

        async def ask(auth: httpx2.Auth | None) -> None:
            async with httpx2.AsyncClient(auth=auth) as client:
                response = await client.post(spec.url or "", json={})
                statuses.append(response.status_code)

        renewals = len(company.token_requests)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask, stored_login_auth(spec))
        await ask(earlier)  # a gateway whose token was good until the others renewed it
        assert 401 not in statuses
        assert len(company.token_requests) == renewals + 1
        assert company.reuses == 0
        assert company.token_requests[-1]["resource"] == spec.url
        # The new refresh token is the stored one.
        assert LoginStorage(spec).login.tokens.refresh_token == company.tokens[-1].refresh_token


async def test_withdrawn_consent_needs_a_person_again():
    async with registered_application() as (company, spec):
        await log_in(spec, browser)
        company.withdraw_consent()
        async with httpx2.AsyncClient(auth=stored_login_auth(spec)) as client:
            with pytest.raises(ConsentNeeded):
                await client.post(spec.url or "", json={})
        assert len(company.authorizations) == 1
        assert (await log_in(spec, browser)).asked_person


@pytest.mark.parametrize("place", ["metadata_issuer", "redirect_issuer"])
async def test_the_wrong_issuer_gets_no_code(place):
    async with registered_application() as (company, spec):
        setattr(company, place, "https://other.example")
        with pytest.raises(ConfigError, match="mismatch"):
            await log_in(spec, browser)
        assert company.token_requests == []


async def test_a_pasted_address_ends_the_login():
    async with registered_application() as (company, spec):
        pages = []

        async def show(page: str) -> None:
            pages.append(page)

        async def paste() -> str:
            if not pages[1:]:
                pages.append("no address")
                return "no address\n"
            async with httpx2.AsyncClient() as http:
                answer = await http.get(pages[0])
            return f"{answer.headers['location']}\n"

        assert (await log_in(spec, show, paste)).asked_person
        assert re.match(r"http://localhost:\d+/callback", company.authorizations[0]["redirect_uri"])


async def test_a_machine_without_browser_and_keyring(tmp_path, kept):  # noqa: F811
    secrets = tmp_path / "secrets.json"
    variables = {
        "SHORTLIST_SECRETS_FILE": str(secrets),
        "SHORTLIST_SECRETS_PASSPHRASE": "correct horse",
        "APP_SECRET": SECRET,
    }
    async with registered_application() as (company, spec):
        oauth = {
            "clientId": "app-1",
            "clientSecret": "${APP_SECRET}",
            "callbackPort": spec.login.callback_port,
        }
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"plans": {"url": spec.url, "oauth": oauth}}}))
        command = [sys.executable, "-c", "from shortlist.cli import main; main()"]
        async with await anyio.open_process(
            [*command, "auth", "login", "plans", "--no-browser", "--config", str(config)],
            env={**os.environ, **variables},
        ) as process:
            shown = ""
            with anyio.fail_after(60):
                while not (page := re.search(r"http://127\S+/authorize\S+(?=\s)", shown)):
                    shown += (await process.stderr.receive()).decode()
                async with httpx2.AsyncClient() as http:
                    answer = await http.get(page[0])
                await process.stdin.send(f"{answer.headers['location']}\n".encode())
                async for part in process.stderr:
                    shown += part.decode()
                assert await process.wait() == 0, shown
    assert "logged in with the client id of the configuration; it lists 1 tool" in shown
    assert kept == {}
    assert secrets.stat().st_mode & 0o777 == 0o600
    assert company.tokens[0].access_token not in secrets.read_text()


async def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of this machine is in use"):
            await log_in(plans("http://127.0.0.1:1/mcp", callback_port=port), browser)


def test_the_address_of_a_document_is_checked():
    refused = CliRunner().invoke(app, ["auth", "metadata", "http://ada.example/a.json"])
    assert refused.exit_code == 2
    assert "https address of a file" in refused.output
    assert LoginSettings(client_id="a", client_secret=SecretStr(SECRET)).client_id == "a"
