"""Clients that share a gateway in the background: real processes, also killed ones."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

from shortlist.gateway.attach import socket_folder
from shortlist.gateway.attach.identity import Identity
from shortlist.gateway.attach.socket_folder import AttachError

from .attached import Machine, own_memory, wait_for

_CLIENT = "io.modelcontextprotocol/clientInfo"
#: What each request of the newer protocol has.
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    _CLIENT: {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def closing_machine():
    machine = Machine()
    try:
        yield machine
    finally:
        machine.close()


@pytest.fixture
def machine():
    with closing_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def shared():
    """A machine whose background gateway several tests use; they change nothing there."""
    with closing_machine() as machine:
        machine.write({"result_tokens": 100}, one=machine.rough("one"))
        yield machine


def test_clients_that_start_at_once_share_one_gateway_and_its_servers(machine):
    machine.write(one=machine.rough("one"), two=machine.rough("two"))
    clients = [machine.client() for _ in range(3)]
    for client in clients:
        client.initialize()
    for client in clients:
        assert client.call("one/echo", word="x")["content"][0]["text"] == '{"word": "x"}'
    wait_for(lambda: machine.starts("two"))
    assert (machine.starts("one"), machine.starts("two")) == (1, 1)
    gateway = machine.gateway()
    assert gateway.config == machine.config
    for path in machine.runtime.joinpath("shortlist").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for client in clients[1:]:
        assert own_memory(client.process.pid) < 40_000_000
    assert (
        f"process {gateway.pid}: {machine.config}"
        in json.loads(machine.run("doctor", "--json").stdout)["checks"][4]["details"][0]
    )


def test_a_client_loads_neither_the_sdk_nor_numpy(shared):
    shared.client().initialize()
    program = (
        "import sys, threading, time\n"
        "from shortlist.gateway.attach.attached_client import AttachedClient\n"
        "run = AttachedClient.run\n"
        "def show(self):\n"
        "    run(self)\n"
        "    print(*sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)\n"
        "AttachedClient.run = show\n"
        "from shortlist.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "serve", "--config", str(shared.config)],
        env=shared.environment,
        input=b"",
        capture_output=True,
        timeout=180,
    )
    loaded = set(ended.stderr.decode().split())
    assert {"shortlist", "json", "socket"} <= loaded
    assert not loaded & {"mcp", "mcp_types", "numpy", "pydantic", "anyio", "asyncio", "httpx2"}


def test_each_client_has_its_own_profile_and_session(machine):
    profiles = {"reader": {"tools": ["one/echo"]}, "all": {}, "strict": {"tools": ["none/x"]}}
    machine.write({"profiles": profiles}, one=machine.rough("one"))
    everything, reader = machine.client("--profile", "all"), machine.client("--profile", "reader")
    for client in (everything, reader):
        client.initialize()
    assert everything.call("one/big", bytes=3)["content"][0]["text"] == "yyy"
    assert not reader.call("one/echo").get("isError")
    call = {"name": "call_tool", "arguments": {"name": "one/big", "arguments": {"bytes": 3}}}
    assert reader.ask("tools/call", **call)["result"]["isError"]
    assert len(machine.gateways()) == 1
    unknown = machine.client("--profile", "other")
    assert unknown.process.wait(180) == 1
    unknown.close()
    assert b"no profile 'other'" in unknown.stderr
    # A profile that is no longer in the file permits nothing.
    profiles["all"] = profiles["strict"]
    machine.write({"profiles": profiles}, one=machine.rough("one"))
    wait_for(lambda: everything.ask("tools/call", **call)["result"].get("isError"))


def test_a_text_that_is_cut_inside_an_emoji_does_not_lose_its_call(shared):
    client = shared.client()
    client.initialize()
    client.call("one/echo")
    params = b'{"name": "call_tool", "arguments": {"name": "one/echo", "arguments": {"a": "%s"}}}'
    message = b'{"jsonrpc": "2.0", "id": 4711, "method": "tools/call", "params": %s}\n' % params
    for cut in (rb"cut \ud83d", b"cut \xf0\x9f"):
        client.process.stdin.write(message % cut)
        client.process.stdin.flush()
        result = client.answer(4711)["result"]
        assert json.loads(result["content"][0]["text"]) == {"a": "cut \ufffd"}


def test_a_stored_result_is_not_readable_by_another_client(shared):
    first, second = shared.client(), shared.client()
    for client in (first, second):
        client.initialize()
    text = first.call("one/big", bytes=20_000)["content"][-1]["text"]
    result_id = text.split('{"id": "')[1].split('"')[0]
    read = {"name": "read_result", "arguments": {"id": result_id, "range": [0, 9]}}
    assert not first.ask("tools/call", **read)["result"].get("isError")
    assert second.ask("tools/call", **read)["result"]["isError"]


def test_a_gateway_killed_in_a_call_answers_with_an_error_and_is_started_again(machine):
    machine.write(one=machine.rough("one"))
    client, other, modern = machine.client(), machine.client(), machine.client()
    for each in (client, other):
        each.initialize()
    assert modern.ask("tools/list", _meta=META)["result"]["tools"]
    client.call("one/echo")
    call = {"name": "one/sleep", "arguments": {"steps": 1, "seconds": 600}}
    running = client.request("tools/call", name="call_tool", arguments=call)
    wait_for(lambda: (machine.home / "one" / "called_sleep").exists())
    killed = machine.gateway().pid
    os.kill(killed, signal.SIGKILL)
    assert "ended during this request" in client.answer(running)["error"]["message"]
    # The attached process repeats the handshake.
    listed = client.ask("tools/list")["result"]["tools"]
    assert listed[0]["name"] == "search_tools"
    assert client.call("one/echo", word="again")["content"][0]["text"] == '{"word": "again"}'
    assert other.call("one/echo", word="too")["content"][0]["text"] == '{"word": "too"}'
    # A client without a handshake has nothing to repeat.
    answer = modern.ask("tools/list", _meta=META)
    if "error" in answer:
        # It was sent before the end of the old one was seen.
        assert "ended during this request" in answer["error"]["message"]
        answer = modern.ask("tools/list", _meta=META)
    assert answer["result"]["tools"]
    assert machine.gateway().pid != killed


@pytest.mark.parametrize(
    ("words", "waits"),
    [((), False), (("--alone",), True)],
    ids=["attached, at once", "alone, after the answer"],
)
def test_a_client_may_begin_the_handshake_after_it_asked_for_the_newer_protocol(
    machine, words, waits
):
    """The Vercel AI SDK does so if the gateway starts in more than a second."""
    machine.write(one=machine.rough("one"))
    client = machine.client(*words)
    discovery = client.request("server/discover", _meta=META)
    if waits:
        assert "2026-07-28" in client.answer(discovery)["result"]["supportedVersions"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": META[_CLIENT]}
    handshake = client.request("initialize", **hello)
    while (message := client.message())["id"] != handshake:
        assert not waits, message
    assert message["result"]["protocolVersion"] == "2025-06-18"
    client.send(method="notifications/initialized")
    assert client.ask("tools/list")["result"]["tools"][0]["name"] == "search_tools"
    assert client.call("one/echo", word="x")["content"][0]["text"] == '{"word": "x"}'
    assert bool(machine.gateways()) is not bool(words), "alone, no other client shares it"
    # After any other request of the newer protocol it is a mistake.
    client = machine.client(*words)
    assert client.ask("tools/list", _meta=META)["result"]["tools"]
    assert client.initialize()["error"]["code"] == -32_022


def test_it_ends_some_time_after_the_last_client_and_so_do_its_servers(machine):
    machine.write(one=machine.rough("one"))
    client = machine.client(SHORTLIST_IDLE_END_S="1")
    client.initialize()
    client.call("one/echo")
    gateway = machine.gateway().pid
    server = int((machine.home / "one" / "pid").read_text())
    time.sleep(1.5)
    assert machine.gateway().pid == gateway, "it ended although a client is attached"
    client.close()
    wait_for(lambda: not machine.gateways())
    wait_for(lambda: not psutil.pid_exists(server))


def test_stop_ends_it_with_its_servers_and_the_next_request_starts_it_again(machine):
    machine.write(one=machine.rough("one"))
    client = machine.client()
    client.initialize()
    client.call("one/echo")
    gateway = machine.gateway().pid
    server = int((machine.home / "one" / "pid").read_text())
    ended = machine.run("stop")
    assert f"(process {gateway})" in ended.stdout
    assert machine.gateways() == []
    assert not psutil.pid_exists(server)
    assert client.ask("tools/list")["result"]["tools"]
    assert machine.gateway().pid != gateway


def test_where_no_socket_can_be_made_the_client_gets_its_own_gateway(machine):
    machine.write(one=machine.rough("one"))
    (machine.runtime / "shortlist").write_text("in the way")
    client = machine.client()
    client.initialize()
    assert client.call("one/echo")["content"]
    assert b"this client gets a gateway of its own" in client.stderr
    (machine.runtime / "shortlist").unlink()


def test_a_configuration_with_an_error_fails_as_it_does_alone(machine):
    machine.write({"pinned": 5}, one=machine.rough("one"))
    client = machine.client()
    assert client.process.wait(180) == 1
    client.close()
    assert b"pinned" in client.stderr
    assert b"gateway of its own" not in client.stderr


def test_another_value_of_a_variable_gives_another_gateway(machine):
    entry = machine.rough("one", env={"TOKEN": "${OF_TEST}"})
    machine.write(one=entry)
    for value in ("first-4711", "second-4711"):
        client = machine.client(OF_TEST=value)
        client.initialize()
    assert len(machine.gateways()) == 2
    written = "".join(
        f"{path} {path.read_text(errors='replace')}"
        for path in machine.runtime.rglob("*")
        if path.is_file()
    )
    assert "4711" not in written


@pytest.fixture
def identity_of(tmp_path, monkeypatch):
    """Writes a configuration and returns the key of its identity."""
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "a" / "mcp.json"
    config.parent.mkdir()

    def key(entry, own=None):
        document = {"mcpServers": {"one": {"command": sys.executable, **entry}}}
        config.write_text(json.dumps({**document, "shortlist": own or {}}))
        return Identity.of(Path("a/mcp.json"), None).key

    return key


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"A": "${OF_TEST}"}},
        {"env": {"A": "${env:OF_TEST}"}},
        {"env": {"A": "${OF_TEST:-default}"}},
        {"env": {"A": "$OF_TEST"}},
        {"args": ["{env:OF_TEST}"]},
        {"env_vars": ["OF_TEST"]},
        {"url": "https://x.test", "bearer_token_env_var": "OF_TEST"},
        {"url": "https://x.test", "env_http_headers": {"X": "OF_TEST"}},
    ],
)
def test_every_way_to_name_a_variable_counts(identity_of, monkeypatch, entry):
    keys = {identity_of(entry)}
    monkeypatch.setenv("NOT_NAMED", "x")
    assert identity_of(entry) in keys
    for value in ("1", "2"):
        monkeypatch.setenv("OF_TEST", value)
        keys.add(identity_of(entry))
    assert len(keys) == 3


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"A": "${file:{path}}"}},
        {"args": ["{file:{path}}"]},
        {"envFile": "{path}"},
        {"envFile": "${FOLDER_OF_TEST}/{name}"},
        {"envFile": "~/{name}"},
        {"env_file": "../{name}"},
    ],
)
def test_the_content_of_a_file_counts(identity_of, tmp_path, monkeypatch, entry):
    path = tmp_path / "secret"
    monkeypatch.setenv("FOLDER_OF_TEST", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    entry = json.loads(json.dumps(entry).replace("{path}", str(path)).replace("{name}", path.name))
    keys = {identity_of(entry)}
    for value in ("1", "2"):
        path.write_text(value)
        keys.add(identity_of(entry))
    assert len(keys) == 3


@pytest.mark.parametrize("name", DEFAULT_INHERITED_ENV_VARS)
def test_the_environment_that_servers_get_counts(identity_of, monkeypatch, name):
    first = identity_of({})
    monkeypatch.setenv(name, "/changed")
    assert identity_of({}) != first


def test_a_password_in_the_keyring_counts(identity_of, monkeypatch):
    entry = {"env": {"A": "${keyring:name}"}}
    keys = set()
    for value in (None, "1", "2", "2"):
        monkeypatch.setattr(
            "shortlist.gateway.connections.secret_store.SystemKeyring.get",
            lambda *_, value=value: value,
        )
        keys.add(identity_of(entry))
    assert len(keys) == 3


def test_settings_and_code_count_but_not_the_list_of_servers(identity_of, monkeypatch):
    first = identity_of({"args": ["first"]})
    # A running gateway follows this change.
    assert identity_of({"args": ["second"]}) == first
    assert identity_of({"args": ["first"]}, {"pinned": ["x/*"]}) != first
    monkeypatch.setattr("shortlist.gateway.attach.identity._source_files_hash", lambda: "changed")
    assert identity_of({"args": ["first"]}) != first


def test_the_working_folder_counts_where_an_argument_is_relative(
    identity_of, tmp_path, monkeypatch
):
    config = tmp_path / "a" / "mcp.json"
    (tmp_path / "notes").mkdir()
    for argument, folder in ((".", tmp_path), ("notes", tmp_path), ("/tmp", config.parent)):
        identity_of({"args": [argument]})
        assert Identity.of(config, None).folder == folder
    identity_of({"args": ["notes"]})
    monkeypatch.chdir("/")
    assert Identity.of(config, None).folder == config.parent


def test_a_folder_of_another_user_or_open_to_others_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = socket_folder.socket_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o750)
    with pytest.raises(AttachError, match="other users have access"):
        socket_folder.socket_folder()
    folder.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(AttachError, match="belongs to another user"):
        socket_folder.socket_folder()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder.rmdir()
    folder.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    with pytest.raises(AttachError, match="not a folder"):
        socket_folder.socket_folder()
    with pytest.raises(AttachError, match="too long"):
        socket_folder.socket_path(Path("/" + "x" * 100), "key")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose process it is")
def test_a_process_of_another_user_at_the_socket_is_refused(monkeypatch):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket_folder.check_peer(ours)
        monkeypatch.setattr(os, "getuid", lambda: 4_711)
        with pytest.raises(AttachError, match="another user"):
            socket_folder.check_peer(ours)
