"""Definitions are pinned when they are first seen, and a changed one waits for approval."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

import shortlist
from shortlist import Catalog, Tool
from shortlist.cli.app import app
from shortlist.errors import MissingExtraError
from shortlist.gateway.connections.server_log import MAX_LOG_BYTES, log_path
from shortlist.gateway.connections.user_folders import cache_folder, state_folder
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.upstream import server_lists
from shortlist.gateway.upstream.first_use import FirstUsePins, default_pins
from shortlist.gateway.upstream.start_cache import ListingCache
from shortlist.gating.votes import _EXTRA_VOTES_READ
from shortlist.trust import Pins, Trust, approve_definitions
from shortlist.trust.pins import MAX_SERVER_PIN_BYTES, MAX_SERVER_PINS

from .fake_servers import FakeServer, fleet_of, found_by, gateway_of, relisted, text_of, tool

pytestmark = pytest.mark.anyio
WAITS = "its definition changed since it was accepted"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def files() -> FakeServer:
    return FakeServer("files", [tool("read_file", "Read a file."), tool("read_folder", "List.")])


async def test_a_changed_definition_waits_until_it_is_approved(tmp_path):
    server, path = files(), tmp_path / "pins.json"
    async with gateway_of(tmp_path, server, pins=FirstUsePins(path)) as (client, made):
        assert set(Pins.read(path)) == {"files/read_file", "files/read_folder"}
        assert "files/read_file" in await found_by(client, "read a file")
        await relisted(made, server, tool("read_file", "Read any file."), tool("new_file"))
        result = await client.call_tool("search_tools", {"query": "read a file", "k": 50})
        names = [one["name"] for one in result.structured_content["tools"]]
        assert "files/read_file" not in names
        note = "1 tool of files waits for the operator's approval (shortlist trust diff)."
        assert note in result.structured_content["notes"]
        assert note in text_of(result)
        for name in ("files/read_file", "read_file", "files__read_file"):
            refused = await client.call_tool("call_tool", {"name": name})
            assert refused.is_error
            assert WAITS in text_of(refused)
            assert "any file" not in text_of(refused)
            assert json.loads(text_of(refused))["code"] == "definition_changed"
        assert not (await client.call_tool("call_tool", {"name": "files/new_file"})).is_error
        pins = Pins.read(path)
        assert "files/new_file" in pins
        pins.approve([made.fleet.engine.catalog.get("files/read_file")]).save(path)
        # The model has read the old definition: it gets the new one before its call is made.
        answered = await client.call_tool("call_tool", {"name": "files/read_file"})
        assert answered.is_error
        assert "Read any file." in text_of(answered)
        assert not (await client.call_tool("call_tool", {"name": "files/read_file"})).is_error
        assert "files/read_file" in await found_by(client, "read a file")


async def test_a_search_names_no_tool_whose_approved_definition_it_does_not_show(tmp_path):
    """A call of what a search has shown runs. It failed for tools that only a note named."""
    others = [tool(f"read_{word}", "Read pages of a kind.") for word in ("book", "letter", "map")]
    server, path = FakeServer("docs", [tool("read_paper", "Reads it."), *others]), tmp_path / "pins"
    async with gateway_of(tmp_path, server, pins=FirstUsePins(path)) as (client, made):
        await client.call_tool("get_tool_details", {"names": ["docs/read_paper"]})
        await relisted(made, server, tool("read_paper", "Reads a paper."), *others)
        approve_definitions(path, [made.fleet.engine.catalog.get("docs/read_paper")])
        await made.fleet.follow_changes()
        for query, k in (
            ("read pages of a kind, book or letter, or a paper", 2),
            ("read a paper", None),
        ):
            given = {"query": query} if k is None else {"query": query, "k": k}
            found = text_of(await client.call_tool("search_tools", given))
            is_named = "read_paper(" in found
            assert is_named == (k is None), found
        assert not (await client.call_tool("call_tool", {"name": "docs/read_paper"})).is_error


async def test_a_deleted_file_of_pins_lets_no_changed_definition_pass(tmp_path):
    server, path = files(), tmp_path / "pins.json"
    mail = FakeServer("mail", [tool("send_mail", "Send a mail.")])
    async with gateway_of(tmp_path, server, mail, pins=FirstUsePins(path)) as (_, made):
        await relisted(made, server, tool("read_file", "Read any file."), server.tools[1])
        assert set(made.fleet.engine.quarantined) == {"files/read_file"}
        for file in path.iterdir():
            file.unlink()
        await made.fleet.follow_changes()
        assert set(made.fleet.engine.quarantined) == {"files/read_file"}
        # The list of one server has the file written again.
        await relisted(made, mail, tool("send_mail", "Send all mails."), tool("new_mail"))
        assert set(made.fleet.engine.quarantined) == {"files/read_file", "mail/send_mail"}
        assert "mail/new_mail" in Pins.read(path)


async def test_servers_of_one_start_have_one_age_and_what_comes_later_a_higher_one(tmp_path):
    server, path = files(), tmp_path / "pins.json"
    mail = FakeServer("mail", [tool("send_mail", "Send a mail.")])
    copy = tool("send_mail", "Send a mail.")

    def ages():
        pins = Pins.read(path)
        return {tool_id: pins.age(tool_id) for tool_id in pins}

    async with gateway_of(tmp_path, server, mail, pins=FirstUsePins(path)) as (client, made):
        assert set(ages().values()) == {1}
        await relisted(made, server, *server.tools, copy)
        assert (ages()["mail/send_mail"], ages()["files/send_mail"]) == (1, 2)
        assert (await found_by(client, "please send a mail with files"))[:2] == [
            "mail/send_mail",
            "files/send_mail",
        ]
    later = FakeServer("later", [copy])
    async with fleet_of(tmp_path, server, mail, later, pins=FirstUsePins(path)):
        assert ages()["later/send_mail"] == 3


async def test_a_change_while_the_gateway_did_not_run_is_seen(tmp_path):
    server, path = files(), tmp_path / "pins.json"
    async with fleet_of(tmp_path, server, pins=FirstUsePins(path)):
        pass
    server.tools[0] = tool("read_file", "Send a file.")
    async with fleet_of(tmp_path, server, pins=FirstUsePins(path)) as fleet:
        # The kept list is still the old one; the server's start brings the new one.
        assert not fleet.engine.quarantined
        fleet.upstreams["files"].start()
        with anyio.fail_after(5):
            while not fleet.engine.quarantined:
                await anyio.sleep(0.01)
        assert set(fleet.engine.quarantined) == {"files/read_file"}


async def test_a_profile_is_not_told_of_others_tools_that_wait(tmp_path):
    server, path = files(), tmp_path / "pins.json"
    profile = Profile(pass_through=0.0, tools=("files/read_folder",))
    async with gateway_of(tmp_path, server, profile=profile, pins=FirstUsePins(path)) as (
        client,
        made,
    ):
        await relisted(made, server, tool("read_file", "Changed."), server.tools[1])
        result = await client.call_tool("search_tools", {"query": "read a folder"})
        assert "approval" not in str(result.structured_content["notes"])


def kept(home, *tools) -> str:
    """A gateway's configuration of one server, with what it listed last."""
    from shortlist.gateway.clients.client_config import read_client_config
    from shortlist.gateway.upstream.server_lists import Listing

    config = home / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"files": {"command": "none"}}}))
    (spec,) = read_client_config(config).servers
    ListingCache.default().write(spec, Listing(tools))
    return str(config)


def test_the_command_line_approves_what_a_gateway_pinned(home):
    config = kept(home, tool("read_file", "Read a file."))
    pins = default_pins(home / "mcp.json")
    assert pins.is_relative_to(home / "state")
    FirstUsePins(pins).pin([Tool("read_file", "files", "Read a file.", tool("x").input_schema)])
    run = CliRunner().invoke
    assert run(app, ["trust", "diff", "--config", config]).exit_code == 0
    kept(home, tool("read_file", "Read all files."))
    shown = run(app, ["trust", "diff", "--config", config])
    assert shown.exit_code == 3
    assert "+ Read all files." in shown.output
    done = run(app, ["trust", "approve", "files/read_file", "--config", config])
    assert done.exit_code == 0, done.output
    assert run(app, ["trust", "diff", "--config", config]).exit_code == 0
    assert Pins.read(pins).approves(
        Tool("read_file", "files", "Read all files.", tool("x").input_schema)
    )


@pytest.mark.parametrize("given", [[], ["--pins", "x.json"], ["--config", "a", "--tools", "b"]])
def test_diff_says_what_it_needs(given):
    result = CliRunner().invoke(app, ["trust", "diff", *given])
    assert result.exit_code == 2
    assert "give --config FILE" in " ".join(result.output.split())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
@pytest.mark.parametrize("variable", [None, ""])
def test_files_are_in_the_folders_of_the_user(home, variable, monkeypatch):
    assert state_folder() == home / "state" / "shortlist"
    assert cache_folder() == home / "cache" / "shortlist"
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        if variable is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, variable)
    assert default_pins(home / "mcp.json").parent == home / ".local/state/shortlist/pins"
    assert log_path("a") == home / ".local/state/shortlist/logs/a.log"
    assert ListingCache.default().folder == home / ".cache/shortlist/manifests"


def test_without_the_library_for_folders(monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(MissingExtraError, match="gateway"):
        state_folder()


def test_each_configuration_has_pins_of_its_own(home):
    assert default_pins(home / "a" / "mcp.json") != default_pins(home / "b" / "mcp.json")
    assert default_pins(home / "mcp.json") == default_pins(home / "x" / ".." / "mcp.json")


def test_processes_that_pin_at_once_lose_nothing(tmp_path):
    path = tmp_path / "pins.json"

    def pin(number: int) -> None:
        FirstUsePins(path).pin([Tool(f"tool_{number}", "one")])

    threads = [threading.Thread(target=pin, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Pins.read(path)) == 12


SEND = Tool("send_mail", "mail", "Send a mail.")
READ = Tool("read_file", "files", "Read a file.")


def test_a_file_that_cannot_be_read_quarantines_its_server_only(tmp_path):
    path = tmp_path / "pins.json"
    FirstUsePins(path).pin([SEND, READ])
    (mail,) = path.glob("mail-*.json")
    mail.write_text("{")
    more = Tool("list_mails", "mail", "List mails.")
    new = Tool("write_file", "files", "Write a file.")
    FirstUsePins(path).pin([SEND, READ, more, new])
    catalog = Catalog([SEND, READ, more, new])
    flags = Trust(pins=path).flags(catalog)
    assert {id_: flag.code for id_, flag in flags.items()} == {
        "mail/send_mail": "new_tool_waits",
        "mail/list_mails": "new_tool_waits",
    }
    # An approval is for one tool; what could not be read is kept.
    approve_definitions(path, [SEND])
    FirstUsePins(path).pin(catalog)
    assert set(Trust(pins=path).flags(catalog)) == {"mail/list_mails"}
    assert mail.with_suffix(".damaged").read_text() == "{"


def test_what_a_server_names_is_bounded_and_new_tools_wait_beyond_it(tmp_path, monkeypatch):
    """A server lists 110 new names after each change; another one is not affected."""
    path = tmp_path / "pins.json"
    monkeypatch.setattr("shortlist.trust.pins.MAX_SERVER_PINS", 500)
    pins = FirstUsePins(path)
    pins.pin([READ])
    for reading in range(8):
        listed = [Tool(f"tool_{reading}_{n}", "mail", "x" * 50) for n in range(110)]
        pins.pin(listed)
    new = Tool("write_file", "files", "Write a file.")
    pins.pin([new])
    assert len(Pins.read(path)) == 502
    size = sum(file.stat().st_size for file in path.iterdir())
    flags = Trust(pins=path).flags(Catalog([*listed, READ, new]))
    assert set(flags) == {tool.id for tool in listed}
    approve_definitions(path, listed[:1])
    assert set(Trust(pins=path).flags(Catalog([*listed, READ]))) == {tool.id for tool in listed[1:]}
    pins.pin([Tool("tool_9", "mail", "x")])
    assert sum(file.stat().st_size for file in path.iterdir()) < size + 1_000


def test_the_bytes_of_a_servers_definitions_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.trust.pins.MAX_SERVER_PIN_BYTES", 20_000)
    tools = [Tool(f"tool_{n}", "mail", "y" * 5_000) for n in range(6)]
    FirstUsePins(tmp_path / "pins.json").pin(tools)
    assert list(Pins.read(tmp_path / "pins.json")) == [tool.id for tool in tools[:3]]


def test_a_file_that_another_process_wrote_is_noticed_once(tmp_path):
    path = tmp_path / "pins.json"
    pins = FirstUsePins(path)
    assert not pins.has_changed()
    Pins().pin([Tool("a", "b")]).save(path)
    os.utime(path, ns=(1, 1))
    assert pins.has_changed()
    assert not pins.has_changed()


def test_the_page_names_the_quotas_of_the_code():
    page = (Path(shortlist.__file__).parent / "docs" / "gateway-servers.md").read_text("utf-8")
    quotas = re.search(r"- \*\*What a server may name\*\*.*?\n- ", page, re.DOTALL)[0]
    for count, size in (
        (server_lists._MAX_ENTRIES, server_lists._MAX_TOOL_LIST_BYTES),
        (server_lists._MAX_ENTRIES, server_lists._MAX_OTHER_LIST_BYTES),
        (MAX_SERVER_PINS, MAX_SERVER_PIN_BYTES),
    ):
        assert f"{count:,} " in quotas
        assert f"({size // 10**6} MB" in quotas
    assert f"{2 * MAX_LOG_BYTES // 10**6} MB of stderr" in quotas
    assert f"and {_EXTRA_VOTES_READ} more" in quotas
