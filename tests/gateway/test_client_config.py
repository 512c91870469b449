"""Every client's format is read, and one bad server never takes the others down."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from shortlist.errors import ConfigError
from shortlist.gateway.clients.client_config import ClientConfig, read_client_config
from shortlist.gateway.connections.server_spec import LoginSettings, ServerSpec

SAMPLES = Path(__file__).parent / "samples"
HOME = Path("/home/ada")
ENVIRONMENT = {"API_KEY": "key-VALUE", "DB_PASSWORD": "db-VALUE"}


def read(path: Path, **environment: str) -> ClientConfig:
    return read_client_config(path, environment={**ENVIRONMENT, **environment}, home=HOME)


def sample(name: str, **environment: str) -> dict[str, ServerSpec]:
    config = read(SAMPLES / name, **environment)
    assert config.problems == ()
    return {server.name: server for server in config.servers}


@pytest.fixture
def write(tmp_path):
    def write_file(content: Any, name: str = "mcp.json") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    return write_file


def servers(write, **entries: Any) -> ClientConfig:
    return read(write({"mcpServers": entries}))


def test_claude_desktop():
    found = sample("claude_desktop_config.json")
    assert found["filesystem"].command == "npx"
    assert found["filesystem"].args[-1] == "/home/ada/Documents"
    assert found["github"].revealed_env() == {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_SECRET_desktop"}
    assert found["github"].timeout_s == 60
    assert found["github"].start_timeout_s == 30


def test_claude_code():
    found = sample("claude_code.mcp.json", CONFIG_DIR="/cfg")
    assert found["api-server"].transport == "http"
    assert found["api-server"].url == "https://api.example.com/mcp"
    assert found["api-server"].revealed_headers() == {"Authorization": "Bearer key-VALUE"}
    assert found["asana"].transport == "sse"
    assert found["db"].args == ("--config", "/cfg/db.json")
    assert found["db"].revealed_env()["DB_PASSWORD"] == "db-VALUE"
    assert found["db"].timeout_s == 120


def test_cursor(tmp_path):
    folder = tmp_path / "project" / ".cursor"
    folder.mkdir(parents=True)
    shutil.copy(SAMPLES / "cursor.mcp.json", folder / "mcp.json")
    config = read(folder / "mcp.json")
    assert config.problems == ()
    local, remote = config.servers
    assert local.command == "/home/ada/bin/server"
    assert local.args == ("--root", str(tmp_path / "project"))
    assert local.revealed_env() == {"API_KEY": "key-VALUE"}
    assert remote.transport == "http"
    assert remote.revealed_headers() == {"X-Key": "key-VALUE"}


def test_gemini():
    found = sample("gemini_settings.json")
    python = found["python"]
    assert python.args[-1] == "8080"
    assert python.revealed_env() == {"DATABASE_URL": "db-VALUE", "API_KEY": "key-VALUE"}
    assert python.cwd == str(SAMPLES / "mcp-servers/python")
    assert python.timeout_s == 15
    assert python.description == "Reads files safely"
    assert python.tools.permits("safe_read")
    assert not python.tools.permits("safe_delete")
    assert not python.tools.permits("safe_Delete")
    assert not python.tools.permits("Safe_read")
    assert not python.tools.permits("other")
    assert found["streaming"].transport == "http"
    assert found["events"].transport == "sse"
    assert found["off"].disabled


def test_windsurf():
    found = sample("windsurf_mcp_config.json")
    assert found["figma"].transport == "http"
    assert found["figma"].revealed_headers() == {"API_KEY": "Bearer key-VALUE"}
    assert not found["figma"].tools.permits("delete_file")
    assert found["figma"].tools.permits("get_file")
    assert found["time"].disabled


def test_cline_counts_seconds():
    found = sample("cline_mcp_settings.json")
    assert found["weather"].transport == "http"
    assert found["weather"].timeout_s == 3600
    assert found["legacy"].disabled


def test_copilot():
    found = sample("copilot_mcp-config.json")
    assert found["context7"].transport == "stdio"
    assert found["context7"].tools.permits("anything")
    assert not found["next"].tools.permits("anything")


def test_vscode():
    found = sample("vscode_mcp.json", SHORTLIST_INPUT_PERPLEXITY_KEY="pplx")
    assert found["Perplexity"].args[-1] == "eu"
    assert found["Perplexity"].revealed_env() == {"PERPLEXITY_API_KEY": "pplx"}
    assert found["Perplexity"].cwd == str(SAMPLES / "tools")
    assert found["github"].transport == "http"


def test_vscode_asks_for_an_input_by_naming_its_variable():
    config = read(SAMPLES / "vscode_mcp.json")
    assert config.table_keys == ("servers",)
    assert list(config.unusable_servers) == ["Perplexity"]
    assert config.problems == (
        "servers.Perplexity.env.PERPLEXITY_API_KEY: the variable SHORTLIST_INPUT_PERPLEXITY_KEY "
        "is not set; set it, or write ${SHORTLIST_INPUT_PERPLEXITY_KEY:-default}",
    )
    assert [server.name for server in config.servers] == ["github"]


def test_vscode_user_settings(write):
    path = write({"mcp": {"servers": {"a": {"command": "x"}}}}, "settings.json")
    assert read(path).table_keys == ("mcp", "servers")
    assert read(path).servers[0].command == "x"


def test_zed():
    config = read(SAMPLES / "zed_settings.json")
    assert config.table_keys == ("context_servers",)
    custom, old, remote = config.servers
    assert (custom.command, custom.args) == ("some-command", ("arg-1", "arg-2"))
    assert (old.command, old.args) == ("/opt/server", ("--stdio",))
    assert old.revealed_env() == {"TOKEN": "zed-SECRET-2"}
    assert remote.transport == "http"
    assert list(config.unusable_servers) == ["extension-server"]
    assert "context_servers.extension-server.command: an extension" in config.problems[0]


def test_opencode(tmp_path):
    shutil.copy(SAMPLES / "opencode.jsonc", tmp_path)
    (tmp_path / "secret.txt").write_text("from-file\n")
    config = read(tmp_path / "opencode.jsonc")
    assert config.problems == ()
    everything, jira, sentry = config.servers
    assert everything.command == "npx"
    assert everything.args == ("-y", "@modelcontextprotocol/server-everything")
    assert everything.revealed_env() == {"MY_ENV_VAR": "key-VALUE"}
    assert everything.start_timeout_s == 5
    assert everything.timeout_s == 60
    assert jira.disabled
    assert sentry.revealed_headers() == {"Authorization": "Bearer from-file"}


def test_opencode_2(tmp_path):
    shutil.copy(SAMPLES / "opencode_2.jsonc", tmp_path)
    (tmp_path / "secret.txt").write_text("from-file\n")
    config = read(tmp_path / "opencode_2.jsonc")
    assert (config.table_keys, config.problems) == (("mcp", "servers"), ())
    everything, jira, sentry = config.servers
    assert everything.revealed_env() == {"MY_ENV_VAR": "key-VALUE"}
    assert (everything.start_timeout_s, everything.timeout_s) == (15, 90)
    assert jira.disabled
    assert sentry.revealed_headers() == {"Authorization": "Bearer from-file"}


def test_codex():
    config = read(SAMPLES / "codex_config.toml", LOCAL_TOKEN="local")
    assert config.table_keys == ("mcp_servers",)
    assert config.problems == ()
    context7, figma, chrome = config.servers
    assert context7.revealed_env() == {"LOCAL_TOKEN": "local", "MY_ENV_VAR": "codex-SECRET-1"}
    assert figma.revealed_headers() == {
        "X-Figma-Region": "us-east-1",
        "X-Extra": "db-VALUE",
        "Authorization": "Bearer key-VALUE",
    }
    assert chrome.disabled
    assert (chrome.start_timeout_s, chrome.timeout_s) == (20, 45.5)
    assert chrome.tools.permits("open")
    assert not chrome.tools.permits("screenshot")
    assert config.gateway_settings == {"pinned": ["context7/*"]}


@pytest.mark.parametrize(
    ("entry", "login"),
    [
        # Claude Code
        (
            {"oauth": {"clientId": "app", "callbackPort": 3118, "scopes": "repo user"}},
            {"client_id": "app", "callback_port": 3118, "scopes": ("repo", "user")},
        ),
        # VS Code
        ({"oauth": {"clientId": "app"}}, {"client_id": "app"}),
        # Codex
        (
            {
                "scopes": ["repo"],
                "auth": "oauth",
                "oauth": {
                    "client_id": "app",
                    "callback_port": 5,
                    "callback_url": "http://127.0.0.1/b",
                },
            },
            {
                "client_id": "app",
                "scopes": ("repo",),
                "callback_port": 5,
                "redirect_uri": "http://127.0.0.1/b",
            },
        ),
        # opencode
        ({"oauth": False}, {}),
        (
            {"oauth": {"clientId": "app", "clientSecret": "${API_KEY}", "scope": "repo"}},
            {"client_id": "app", "client_secret": "key-VALUE", "scopes": ("repo",)},
        ),
        (
            {"oauth": {"clientMetadataUrl": "https://x.example/${API_KEY}.json"}},
            {"client_metadata_url": "https://x.example/key-VALUE.json"},
        ),
    ],
)
def test_how_clients_write_a_login(write, entry, login):
    config = servers(write, a={"url": "https://x.example/mcp", **entry})
    assert config.problems == ()
    assert config.servers[0].login == LoginSettings(**login)
    assert "key-VALUE" not in repr(config.servers[0])


def test_one_variable_may_have_several_scopes(write):
    entry = {"url": "https://x.example/mcp", "oauth": {"scopes": "${SCOPES} read"}}
    config = read(write({"mcpServers": {"a": entry}}), SCOPES="repo user")
    assert config.servers[0].login.scopes == ("repo", "user", "read")


@pytest.mark.parametrize(
    ("oauth", "problem"),
    [
        ("app", "oauth: must be a table of settings"),
        ({"clientId": ["a"]}, "oauth.clientId: must be a text"),
        ({"callbackPort": "3118"}, "oauth.callbackPort: must be a port"),
        ({"callbackPort": 70_000}, "oauth.callback_port: input should be less than"),
        ({"clientSecret": "SECRET"}, "oauth: client_secret: belongs to a client id"),
        ({"clientMetadataUrl": "http://x.example/a"}, "oauth.client_metadata_url: must be the"),
        ({"scopes": ['a"b']}, "oauth.scopes: a scope is one word"),
    ],
)
def test_a_login_that_cannot_be_is_named(write, oauth, problem):
    config = servers(write, a={"url": "https://x.example/mcp", "oauth": oauth})
    assert f"mcpServers.a.{problem}" in config.problems[0]
    assert "SECRET" not in config.problems[0]


def test_one_bad_server_never_takes_the_others_down(write):
    config = servers(
        write,
        good={"command": "x"},
        text="npx",
        empty={},
        args={"command": "x", "args": "y"},
        item={"command": "x", "args": [["y"]]},
        env={"command": "x", "env": {"A": {"b": 1}}},
        nul={"command": "x\0y"},
        half={"command": "x", "env": {"A": "\ud800"}},
        ftp={"url": "ftp://example.com"},
        host={"url": "https://"},
        port={"url": "https://example.com:99999/"},
        kind={"type": "ws", "url": "https://example.com"},
        line={"url": "https://example.com", "headers": {"A": "b\r\nC: d"}},
        slow={"command": "x", "timeout": -1},
        off={"command": "x", "disabled": "yes"},
        gone={"command": "x", "env": {"A": "${GONE}"}},
        nested={"command": "x", "args": ["${A:-${B}}"]},
        other={"command": "x", "args": ["${vault:a/b}"]},
    )
    assert [server.name for server in config.servers] == ["good"]
    assert config.problems == (
        "mcpServers.text: must be a table of settings, not text",
        "mcpServers.empty: has neither `command` nor `url`; add one of them",
        "mcpServers.args.args: must be a list of texts, not text",
        "mcpServers.item.args.0: must be a text, not a list",
        "mcpServers.env.env.A: must be a text, not a table",
        "mcpServers.nul.command: contains a NUL character; remove it",
        "mcpServers.half.env: A: contains half of a surrogate pair, which is no valid text; "
        "remove it",
        "mcpServers.ftp: url: an address must start with http:// or https:// and have a host",
        "mcpServers.host: url: an address must start with http:// or https:// and have a host",
        "mcpServers.port: url: not an address; write http://HOST:PORT/PATH",
        "mcpServers.kind.type: no such transport; use one of: stdio, local, http, https, "
        "streamable-http, streamablehttp, streamable_http, sse, remote",
        "mcpServers.line.headers: A: a header's value must be one line",
        "mcpServers.slow.timeout: must be a number above 0",
        "mcpServers.off.disabled: must be true or false, not text",
        "mcpServers.gone.env.A: the variable GONE is not set; set it, or write ${GONE:-default}",
        "mcpServers.nested.args.0: references cannot be nested; use one variable for the whole "
        "value",
        "mcpServers.other.args.0: there is no kind of reference 'vault:'; use one of: ${NAME}, "
        "${NAME:-default}, ${env:NAME}, ${keyring:NAME}, ${file:PATH}",
    )
    assert len(config.unusable_servers) == len(config.problems)


def test_what_a_shell_expands_stays_as_it_is(write):
    config = servers(write, a={"command": "bash", "args": ["-c", "echo ${X%.*} $Y ${} ${1}"]})
    assert config.servers[0].args[1] == "echo ${X%.*} $Y ${} ${1}"


def test_an_empty_variable_is_empty_or_the_default(write):
    path = write({"mcpServers": {"a": {"command": "x", "args": ["${E}", "${E:-d}", "${N:-}"]}}})
    assert read(path, E="").servers[0].args == ("", "d", "")


def test_values_are_not_expanded_again(write):
    path = write({"mcpServers": {"a": {"command": "x", "args": ["${A}"]}}})
    assert read(path, A="${API_KEY} ~").servers[0].args == ("${API_KEY} ~",)


def test_unexpanded(write):
    path = write({"mcpServers": {"a": {"command": "~/x", "env": {"A": "${GONE}"}}}})
    config = read_client_config(path, environment={}, home=HOME, expand=False)
    assert config.problems == ()
    assert config.servers[0].command == "~/x"
    assert config.servers[0].revealed_env() == {"A": "${GONE}"}


def test_working_directory_and_env_file(write, tmp_path):
    (tmp_path / ".env").write_text("# comment\nexport A='one'\nB=two=2\n\n")
    entry = {"command": "x", "working_dir": "sub", "envFile": ".env", "env": {"B": "own"}}
    server = servers(write, a=entry).servers[0]
    assert server.cwd == str(tmp_path / "sub")
    assert server.revealed_env() == {"A": "one", "B": "own"}
    config = servers(write, a={"command": "x", "envFile": "~/none"})
    assert "mcpServers.a.env_file: the file /home/ada/none cannot be read" in config.problems[0]


def test_what_the_gateway_cannot_do_is_a_problem_of_a_server_that_stays(write):
    config = servers(write, a={"url": "https://x.example/mcp", "headersHelper": "get-token"})
    assert len(config.servers) == 1
    assert "mcpServers.a.headersHelper: not supported" in config.problems[0]


def test_a_misspelled_key_is_named_and_keys_of_other_clients_are_not(write):
    entry = {"command": "x", "enviroment": {"A": "b"}, "trust": True, "autoApprove": [], "q": 1}
    config = read_client_config(write({"mcpServers": {"a": entry}}))
    assert [server.name for server in config.servers] == ["a"]
    (problem,) = config.problems
    assert problem == (
        "mcpServers.a.enviroment: no such key, so it is not read; write `environment`"
    )


def test_servers_of_a_project_are_named(write):
    content = {
        "mcpServers": {},
        "projects": {"/home/ada/p": {"mcpServers": {"a": {"command": "x"}}}},
    }
    assert "projects./home/ada/p.mcpServers: 1 not read" in read(write(content)).problems[0]


def test_keys_that_occur_twice_are_named(write):
    config = read(write('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}'))
    assert config.servers[0].command == "y"
    assert config.problems == ("a: occurs twice in one table; the last one counts",)


@pytest.mark.parametrize("content", ["{}", '{"mcp": {"allowed": []}}', '{"servers": []}'])
def test_a_file_without_servers(write, content):
    config = read(write(content))
    assert config.table_keys == ()
    assert config.problems[0].startswith("no servers; a configuration has one of the keys:")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ('{\n  "a": 1,,\n}', "m.json", "m.json:2:10: not JSON"),
        ('{"a": /* SECRET */ ?}', "m.json", "m.json:1:20: not JSON: expecting value"),
        ("", "m.json", "m.json:1:1: not JSON"),
        ("[]", "m.json", "m.json:1:1: the file must contain a table of settings, not a list"),
        ("[" * 100_000, "m.json", "m.json:1:1: tables are nested too deeply"),
        ("1" * 5_000, "m.json", "m.json:1:1: a number or a date in it is out of range"),
        ("a = 1\nb = SECRET", "m.toml", "m.toml:2:5: not TOML"),
        ("a = [", "m.toml", "m.toml:1:6: not TOML"),
        ('{"shortlist": []}', "m.json", "m.json: shortlist: a table of settings"),
    ],
)
def test_a_file_that_cannot_be_parsed(write, content, name, message):
    with pytest.raises(ConfigError) as caught:
        read(write(content, name))
    assert message in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"none.json: cannot be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{\n "a": "\xe4"}')
    with pytest.raises(ConfigError, match=r"latin.json:2:8: not UTF-8"):
        read(tmp_path / "latin.json")
    monkeypatch.setattr("shortlist.gateway.clients.config_file.MAX_FILE_BYTES", 10)
    (tmp_path / "large.json").write_text('{"a": "bcdefgh"}')
    with pytest.raises(ConfigError, match="larger than 10 bytes"):
        read(tmp_path / "large.json")


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"}}}')
    assert read(path).servers[0].command == "x"
