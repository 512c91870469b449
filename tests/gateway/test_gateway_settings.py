from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from shortlist.errors import ConfigError
from shortlist.gateway.clients.client_config import ClientConfig
from shortlist.gateway.profiles.gateway_settings import GatewaySettings, read_gateway_settings

HOME = Path("/home/ada")


def of(**shortlist) -> ClientConfig:
    return ClientConfig(Path("mcp.json"), ("mcpServers",), (), shortlist)


def test_defaults():
    made = read_gateway_settings(of(), environment={}, home=HOME)
    assert made == GatewaySettings()
    assert (made.pass_through, made.context_tokens, made.result_tokens) == (0.03, 200_000, 10_000)
    assert made.profile().servers == ("*",)
    assert made.engine_config().default_tier == "hybrid"


def test_everything():
    made = GatewaySettings.make(
        {
            "profiles": {
                "reader": {
                    "servers": ["github"],
                    "tools": ["github/get_*"],
                    "scopes": ["github:read"],
                    "rules": [{"tools": "*", "needs": {"scope": "github:read"}}],
                    "votes": True,
                }
            },
            "pinned": ["github/get_me"],
            "catalog": [{"name": "jira", "description": "Issues"}],
            "engine": {"default_tier": "lexical"},
            "idle_stop_s": None,
        }
    )
    assert len(made.profile("reader").gate().rules) == 1
    assert made.catalog == {"jira": "Issues"}
    assert made.engine_config().default_tier == "lexical"
    with pytest.raises(ConfigError, match=r"no profile 'default'; use one of: reader"):
        made.profile()
    with pytest.raises(ConfigError, match=r"no profile 'raeder'; use one of: reader"):
        made.profile("raeder")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pined": []}, "pined: unknown setting; use one of: profiles, pinned, pass_through"),
        ({"profiles": {"a": {"server": []}}}, "profiles.a.server: unknown setting; use one of: "),
        ({"pass_through": 3}, "pass_through: input should be less than or equal to 1, not 3"),
        ({"engine": {"tier": 1}}, "engine: tier: unknown setting; use one of: encoder"),
        (
            {"profiles": {"a": {"rules": [{"tools": "*", "needs": {"scop": "x"}}]}}},
            "profiles.a.rules: rules.0",
        ),
        (
            {
                "profiles": {
                    "a": {"rules": [{"tools": "*", "when": {"n": {"over": 1}}, "deny": True}]}
                }
            },
            "profiles.a.rules: rules.0: when: n: no test 'over'",
        ),
        ({"catalog": ["jira"]}, "catalog: each row needs the keys `name` and `description`"),
        ({"catalog": {"jira": 5}}, "catalog.jira: input should be a valid string, not 5"),
        ({"profiles": {"a": {"token": ""}}}, "profiles.a.token: must be a text that is not empty"),
        ({"profiles": {"a": {"tools": [""]}}}, "profiles.a.tools.0: '' is no pattern"),
        ({"code": {"flows": [["a", " "]]}}, "code.flows.0.1: ' ' is no pattern"),
    ],
)
def test_errors_say_what_exists(values, message):
    with pytest.raises(ConfigError) as caught:
        read_gateway_settings(of(**values), environment={}, home=HOME)
    assert str(caught.value).startswith("mcp.json: shortlist: ")
    assert message in str(caught.value)


def test_a_settings_file_replaces_single_keys(tmp_path):
    path = tmp_path / "gateway.toml"
    path.write_text('pinned = ["b/*"]\n[profiles.one]\nservers = ["b"]\n')
    made = read_gateway_settings(of(pinned=["a/*"], code=True), path, environment={}, home=HOME)
    assert made.pinned == ("b/*",)
    assert made.code.on
    path.write_text("pined = 1")
    with pytest.raises(ConfigError, match=r"gateway.toml: pined: unknown setting"):
        read_gateway_settings(of(), path, environment={}, home=HOME)


def test_tokens():
    profiles = {"a": {"token": "${TOKEN_A}"}, "b": {"token": "plain"}, "c": {}}
    made = read_gateway_settings(of(profiles=profiles), environment={"TOKEN_A": "x\n"}, home=HOME)
    tokens = [profile.token for profile in made.profiles.values()]
    assert [token and token.get_secret_value() for token in tokens] == ["x", "plain", None]
    for environment, message in (
        ({}, "profiles.a.token: the variable TOKEN_A is not set"),
        ({"TOKEN_A": " "}, "profiles.a.token: empty"),
        ({"TOKEN_A": "plain"}, "profiles.b.token: the same token as profiles.a.token"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_gateway_settings(of(profiles=profiles), environment=environment, home=HOME)


def test_paths_of_the_engine_start_at_the_file_that_has_them(tmp_path: Path) -> None:
    engine = {"trust": {"pins": "pins.json"}, "abstention": "decision.json"}
    config = replace(of(engine=engine), path=tmp_path / "client" / "mcp.json")
    made = read_gateway_settings(config, environment={}, home=HOME)
    assert made.pins == tmp_path / "client" / "pins.json"
    assert made.engine_config().abstention == str(tmp_path / "client" / "decision.json")
    (tmp_path / "shortlist.json").write_text(json.dumps({"engine": engine}))
    made = read_gateway_settings(config, tmp_path / "shortlist.json", environment={}, home=HOME)
    assert made.pins == tmp_path / "pins.json"
