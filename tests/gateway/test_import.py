from __future__ import annotations

import json
import stat

from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.clients.client_config import read_client_config
from shortlist.gateway.clients.client_import import entries_with_references, merge_servers
from shortlist.gateway.clients.known_clients import CLIENTS
from shortlist.gateway.clients.server_entry import mcp_servers_entry, read_entry
from shortlist.gateway.connections.masking import is_harmless, masked_entry
from shortlist.gateway.connections.server_spec import LoginSettings, ServerSpec, ToolFilter

from .test_install import OF_CLIENT, put, run


def test_every_client_becomes_one_file(tmp_path):
    for name in OF_CLIENT:
        put(tmp_path, CLIENTS[name])
    out = tmp_path / "mcp.json"
    shown = run("import", "--out", out, "--home", tmp_path)
    assert "SECRET" not in shown.output
    assert "Zed: " in shown.output
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    config = read_client_config(out, home=tmp_path, expand=False)
    assert config.problems == ()
    names = [server.name for server in config.servers]
    assert {"github", "github-vscode", "figma", "figma-codex", "context7-codex"} <= set(names)
    assert len(names) == 28
    run("import", "--out", out, "--home", tmp_path, code=1)


def test_what_is_printed_holds_no_secret(tmp_path):
    for name in OF_CLIENT:
        put(tmp_path, CLIENTS[name])
    result = run("import", "--home", tmp_path)
    assert "SECRET" not in result.output
    printed = json.loads(result.stdout)["mcpServers"]
    assert printed["github"]["env"] == {
        "GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}"
    }
    assert printed["local-mcp-server"]["env"] == {"TOKEN": "${LOCAL_MCP_SERVER_TOKEN}"}
    assert printed["remote-mcp-server"]["headers"] == {
        "Authorization": "${REMOTE_MCP_SERVER_AUTHORIZATION}"
    }
    assert "set " in result.stderr
    assert "LOCAL_MCP_SERVER_TOKEN" in result.stderr


def test_one_client_and_none(tmp_path):
    put(tmp_path, CLIENTS["cursor"])
    put(tmp_path, CLIENTS["codex"])
    result = run("import", "--client", "cursor", "--home", tmp_path)
    assert list(json.loads(result.stdout)["mcpServers"]) == ["local", "remote"]
    assert (
        "no configuration of a known client"
        in run("import", "--client", "zed", "--home", tmp_path, code=1).output
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    put(tmp_path, CLIENTS["cursor"])
    put(tmp_path, CLIENTS["gemini"]).write_text("{")
    result = run("import", "--home", tmp_path)
    assert "not read: " in result.stderr
    assert "local" in json.loads(result.stdout)["mcpServers"]


def test_servers_that_are_alike_are_kept_once():
    one = ServerSpec(name="a", transport="stdio", command="x", disabled=True)
    alike = one.model_copy(update={"disabled": False})
    other = ServerSpec(name="a", transport="stdio", command="y")
    found = merge_servers(
        {"zed": [one], "kiro": [alike], "cline": [other], "gemini": [other]}.items()
    )
    assert [(spec.name, spec.disabled) for spec in found] == [
        ("a", False),
        ("a-cline", False),
        ("a-gemini", False),
    ]


WORDS = st.text("abcXYZ0 -_/:.é", min_size=1, max_size=8)
SPECS = st.builds(
    ServerSpec,
    name=WORDS,
    transport=st.just("stdio"),
    command=WORDS.filter(str.strip),
    args=st.lists(WORDS).map(tuple),
    env=st.dictionaries(WORDS, WORDS),
    cwd=st.none() | st.just("/srv"),
    timeout_s=st.floats(0.5, 86_400),
    start_timeout_s=st.integers(1, 100),
    disabled=st.booleans(),
    description=st.none() | WORDS.filter(str.strip),
    tools=st.builds(
        ToolFilter, allow=st.none() | st.just(("a*",)), deny=st.just(()) | st.just(("b",))
    ),
) | st.builds(
    ServerSpec,
    name=WORDS,
    transport=st.sampled_from(["http", "sse"]),
    url=st.sampled_from(["https://x.example/mcp", "http://localhost:1/sse?k=v"]),
    headers=st.dictionaries(st.sampled_from(["A", "B"]), WORDS),
    login=st.builds(
        LoginSettings,
        client_id=WORDS,
        client_secret=st.none() | WORDS,
        scopes=st.just(()) | st.just(("a", "b:c")),
        callback_port=st.none() | st.integers(1, 65_535),
        redirect_uri=st.none() | st.just("http://127.0.0.1/back"),
        client_metadata_url=st.none() | st.just("https://x.example/a.json"),
    ),
)


@given(SPECS)
def test_a_written_server_is_read_as_the_same(tmp_path_factory, spec):
    folder = tmp_path_factory.getbasetemp()
    assert read_entry(spec.name, json.loads(json.dumps(mcp_servers_entry(spec))), folder) == spec


def test_masking():
    masked = masked_entry(
        {
            "command": "npx",
            "args": ["-y", "@scope/server@1.2.3", "--api-key", "hunter", "--token=abc",
                     "/home/ada/x", "ghp_0123456789abcdef", "postgres://u:p@h/db", "${KEY}"],
            "env": {"type": "s3cr3t", "command": "s3cr3t", "A": "${KEY}", "N": 5,
                    "ROOT": "/home/ada", "SHELL_ALLOWS": "ls,cat", "PASS": "ls"},
            "url": "https://u:SECRET@x.example:8080/mcp",
            "oauth": {"clientId": "app-1", "clientSecret": "SECRET", "callbackPort": 3118,
                      "scopes": ["repo"], "clientMetadataUrl": "https://x.example/a?k=SECRET"},
            "timeout": 5,
            "tools": ["a"],
        }
    )  # fmt: skip
    assert masked == {
        "command": "npx",
        "args": ["-y", "@scope/server@1.2.3", "--api-key", "***", "***", "/home/ada/x", "***",
                 "***", "${KEY}"],
        "env": {"type": "***", "command": "***", "A": "${KEY}", "N": "***",
                "ROOT": "/home/ada", "SHELL_ALLOWS": "ls,cat", "PASS": "***"},
        "url": "https://x.example:8080/***",
        "oauth": {"clientId": "app-1", "clientSecret": "***", "callbackPort": 3118,
                  "scopes": ["repo"], "clientMetadataUrl": "https://x.example/***"},
        "timeout": 5,
        "tools": ["a"],
    }  # fmt: skip


def test_what_an_argument_may_be():
    harmless = ["-y", "run", "mcp-server-git", "ghcr.io/github/github-mcp-server", "~/x", "8080",
                "https://mcp.example.com/mcp", "@upstash/context7-mcp@latest", "notes=/home/ada/x",
                "--root=~/x"]  # fmt: skip
    assert all(map(is_harmless, harmless))
    secret = ["sk-proj-a1b2c3d4e5f6", "https://x.example/s/a1b2c3d4e5f6a7b8", "--key=1",
              "https://u:p@x.example", "https://x.example?k=1", "x" * 40, "KEY=abc",
              "KEY=/a1b2c3"]  # fmt: skip
    assert not any(map(is_harmless, secret))


def test_two_secrets_never_become_one_variable_and_none_stays_beside_a_reference() -> None:
    remote_servers = {
        "git-hub": ("https://a.example/mcp", {"X-Key": "first-secret"}),
        "git_hub": ("https://b.example/mcp", {"X-Key": "other-secret"}),
        "c": ("https://${HOST}/?token=abcdef123456", {"Auth": "Bearer ${T}"}),
    }
    specs = [
        *(
            ServerSpec(name=name, transport="http", url=url, headers=headers)
            for name, (url, headers) in remote_servers.items()
        ),
        ServerSpec(
            name="d",
            transport="stdio",
            command="run",
            args=["${HOME}/data"],
            env={"FOLDER": "${HOME}/files"},
        ),
    ]
    entries, variables = entries_with_references(specs)
    assert variables == ("GIT_HUB_X_KEY", "GIT_HUB_X_KEY_2", "C_URL")
    assert entries["git_hub"]["headers"] == {"X-Key": "${GIT_HUB_X_KEY_2}"}
    assert entries["c"]["url"] == "${C_URL}"
    assert entries["c"]["headers"] == {"Auth": "Bearer ${T}"}
    assert entries["d"]["args"] == ["${HOME}/data"]
    assert entries["d"]["env"] == {"FOLDER": "${HOME}/files"}
