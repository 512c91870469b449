"""Login by OAuth to a server, against a real authorization server on this machine."""

from __future__ import annotations

import time

import anyio
import httpx2
import keyring
import pytest
from keyring.backend import KeyringBackend

from shortlist.errors import ConfigError
from shortlist.gateway.connections.login import log_in
from shortlist.gateway.connections.oauth import LoginStorage
from shortlist.gateway.connections.server_log import log_opener
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.upstream.fleet import Fleet
from shortlist.gateway.upstream.server_connection import ServerState, UpstreamError
from shortlist.gateway.upstream.start_cache import ListingCache

from .fleets import call
from .oauth_server import protected_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class MemoryKeyring(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service, username):
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password

    def delete_password(self, service, username):
        del self.kept[service, username]


@pytest.fixture
def kept(monkeypatch):
    before, own = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(own)
    yield own.kept
    keyring.set_keyring(before)


def plans(url: str, **more) -> ServerSpec:
    return ServerSpec(name="plans", transport="http", url=url, **more)


async def browser(page: str) -> None:
    """What a person's browser does."""
    async with httpx2.AsyncClient(follow_redirects=True) as http:
        answer = await http.get(page)
        assert "logged in" in answer.text


def fleet_of(tmp_path, spec: ServerSpec) -> Fleet:
    return Fleet(
        [spec],
        engine_settings={"tiers": ["lexical"]},
        listing_cache=ListingCache(tmp_path / "manifests"),
        open_log=log_opener(tmp_path / "logs"),
    )


async def called(fleet: Fleet) -> str:
    """What the tool answers, once the server's tools are known."""
    with anyio.fail_after(30):
        while "plans/secret_plans" not in fleet.engine.catalog:
            await anyio.sleep(0.02)
        result = await call(fleet, "plans/secret_plans")
    return result.content[0].text


async def test_without_a_login_a_server_waits_for_consent(tmp_path, kept):
    async with protected_server() as (url, authorization):
        fleet = fleet_of(tmp_path, plans(url))
        async with anyio.create_task_group() as group:
            await group.start(fleet.run)
            upstream = fleet.upstreams["plans"]
            with anyio.fail_after(30):
                while upstream.state is not ServerState.AWAITING_CONSENT:
                    await anyio.sleep(0.02)
            with pytest.raises(UpstreamError, match="shortlist auth login plans"):
                await upstream.connect()
            group.cancel_scope.cancel()
        assert authorization.logins == 0


async def test_after_a_login_calls_go_through_and_ended_tokens_are_renewed(tmp_path, kept):
    async with protected_server() as (url, authorization):
        authorization.lifetime_s = 2
        assert (await log_in(plans(url), browser)).tool_count == 1
        assert authorization.logins == 1
        assert [service for service, _ in kept] == ["shortlist-oauth"]
        # In another process: nothing but the keyring is left of the login.
        for pause in (0, 2.2):
            await anyio.sleep(pause)
            fleet = fleet_of(tmp_path, plans(url))
            async with anyio.create_task_group() as group:
                await group.start(fleet.run)
                assert await called(fleet) == "world peace"
                group.cancel_scope.cancel()
        assert authorization.logins == 1
        assert authorization.renewals >= 1


async def test_a_login_belongs_to_a_server_by_name_and_address(kept):
    async with protected_server() as (url, _):
        await log_in(plans(url), browser)
        other = ServerSpec(name="other", transport="http", url=url)
        assert LoginStorage(plans(url)).login.tokens is not None
        assert LoginStorage(other).login.tokens is None
        assert LoginStorage(plans(f"{url}/")).login.tokens is None
        LoginStorage(plans(url)).forget()
        assert LoginStorage(plans(url)).login.tokens is None
        with pytest.raises(ConfigError, match="no password"):
            LoginStorage(plans(url)).forget()


async def test_a_revoked_login_asks_for_consent_again_and_not_a_person(tmp_path, kept):
    async with protected_server() as (url, authorization):
        await log_in(plans(url), browser)
        await authorization.revoke_token(None)
        fleet = fleet_of(tmp_path, plans(url))
        async with anyio.create_task_group() as group:
            await group.start(fleet.run)
            with anyio.fail_after(30):
                while fleet.upstreams["plans"].state is not ServerState.AWAITING_CONSENT:
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()
        assert authorization.logins == 1


async def test_a_server_with_a_token_of_its_own_uses_no_login(tmp_path, kept):
    async with protected_server() as (url, _):
        await log_in(plans(url), browser)
        fleet = fleet_of(tmp_path, plans(url, headers={"Authorization": "Bearer wrong"}))
        async with anyio.create_task_group() as group:
            await group.start(fleet.run)
            with anyio.fail_after(30):
                while fleet.upstreams["plans"].state is not ServerState.AWAITING_CONSENT:
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()


async def test_a_local_server_needs_no_login():
    with pytest.raises(ConfigError, match="needs no login"):
        await log_in(ServerSpec(name="x", transport="stdio", command="x"), browser)


def test_the_commands(tmp_path, kept, monkeypatch):
    import json

    from typer.testing import CliRunner

    from shortlist.cli.app import app

    config = tmp_path / "mcp.json"
    servers = {"plans": {"url": "http://127.0.0.1:1/mcp"}, "local": {"command": "x"}}
    config.write_text(json.dumps({"mcpServers": servers}))
    told = CliRunner().invoke(app, ["auth", "status", "--config", str(config), "--json"])
    assert json.loads(told.stdout) == [
        {
            "server": "plans",
            "logged_in": False,
            "renewed": False,
            "expires_at": None,
            "client": None,
        }
    ]
    login = {"tokens": {"access_token": "a", "refresh_token": "r"}, "expires_at": time.time()}
    kept["shortlist-oauth", "plans http://127.0.0.1:1/mcp"] = json.dumps(login)
    table = CliRunner().invoke(app, ["auth", "status", "--config", str(config)]).stdout
    assert "renewed automatically" in table
    assert (
        CliRunner().invoke(app, ["auth", "logout", "plans", "--config", str(config)]).exit_code == 0
    )
    assert kept == {}
    wrong = CliRunner().invoke(app, ["auth", "login", "nobody", "--config", str(config)])
    assert "no server 'nobody'" in wrong.output
