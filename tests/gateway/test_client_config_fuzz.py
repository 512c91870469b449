"""Any bytes are a `ClientConfig` or a `ConfigError`; no secret is ever shown."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.gateway.clients.client_config import ClientConfig, read_client_config
from shortlist.gateway.profiles.gateway_settings import GatewaySettings, read_gateway_settings

SAMPLES = Path(__file__).parent / "samples"
HOME = Path("/home/ada")
SECRET = "s3cr3t-VALUE"
ENVIRONMENT = {"API_KEY": f"{SECRET}-1", "DB_PASSWORD": f"{SECRET}\n\0-2"}


def read_bytes(data: bytes, ending: str) -> ClientConfig | ConfigError:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"mcp{ending}"
        path.write_bytes(data)
        try:
            config = read_client_config(path, environment=ENVIRONMENT, home=HOME)
        except ConfigError as error:
            return error
    assert isinstance(config, ClientConfig)
    assert all("\n" not in problem for problem in config.problems)
    return config


@given(st.binary(max_size=400), st.sampled_from([".json", ".toml"]))
def test_any_bytes(data, ending):
    read_bytes(data, ending)


@given(st.text(max_size=400), st.sampled_from([".json", ".toml"]))
def test_any_text(text, ending):
    read_bytes(text.encode("utf-8", "surrogatepass"), ending)


@st.composite
def damaged(draw) -> tuple[bytes, str]:
    path = draw(st.sampled_from(sorted(SAMPLES.iterdir())))
    data = bytearray(path.read_bytes())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data), path.suffix


@given(damaged())
def test_a_damaged_file(given_file):
    read_bytes(*given_file)


KEYS = st.sampled_from(
    "command args env environment cwd url httpUrl serverUrl type transport headers timeout "
    "timeout_s disabled enabled tools description envFile env_vars http_headers "
    "bearer_token_env_var env_http_headers includeTools excludeTools source working_dir".split()
)
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["stdio", "${API_KEY}", "https://x.example/sse", "${A:-b}", "{env:API_KEY}", "$API_KEY", "~"]
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.dictionaries(TEXTS, st.dictionaries(KEYS, ANY, max_size=6) | ANY, max_size=4)
SHAPE = st.sampled_from(["mcpServers", "servers", "context_servers", "mcp", "mcp_servers"])


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=100)
@given(SHAPE, ENTRIES, ANY)
@example("mcpServers", {"": {"command": "x", "env_vars": 1}}, None)
def test_any_entries(shape, entries, other):
    document = {shape: entries, "inputs": other, "projects": other}
    found = read_bytes(json.dumps(document).encode(), ".json")
    assert isinstance(found, ClientConfig)
    good = {server.name for server in found.servers}
    assert good | set(found.unusable_servers) == set(entries) or not found.table_keys
    for server in found.servers:
        if server.transport == "stdio":
            assert server.command


SECRETS = st.sampled_from(["", "\0", "\r\n", "\ud800", "é"]).map(lambda end: SECRET + end)
#: Every place that may hold a secret, with good values and bad ones.
SECRET_ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "command": st.just("npx"),
        "args": st.lists(SECRETS) | st.lists(st.lists(SECRETS)),
        "env": st.dictionaries(st.sampled_from(["A", "B=", ""]), SECRETS | st.lists(SECRETS)),
        "headers": st.dictionaries(
            st.sampled_from(["A", "B C"]), SECRETS | st.just("${DB_PASSWORD}")
        ),
        "url": st.sampled_from(
            [
                f"https://x.example/{SECRET}",
                f"https://u:{SECRET}@x.example",
                f"ftp:{SECRET}",
                f"https://[{SECRET}",
                f"https://x.example?key={SECRET}",
                "https://x/${API_KEY}",
            ]
        ),
        "timeout": st.just(SECRET),
        "disabled": st.just(SECRET) | st.booleans(),
        "bearer_token_env_var": st.just("API_KEY"),
        "environment": st.dictionaries(st.just("A"), st.just("${DB_PASSWORD}")),
    },
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(SHAPE, SECRET_ENTRIES, st.sampled_from(["", "?", ",", "}"]))
def test_no_secret_is_ever_shown(shape, entry, damage):
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        document: dict[str, Any] = {shape: {"one": entry}}
        found = read_bytes((damage + json.dumps(document)).encode(), ".json")
    finally:
        logging.getLogger().removeHandler(handler)
    shown = [repr(found), str(found), *lines]
    if isinstance(found, ClientConfig):
        shown += [*found.problems, *map(repr, found.servers), *map(str, found.servers)]
        shown += [f"{dict(server)['env']} {dict(server)['headers']}" for server in found.servers]
    assert SECRET not in "\n".join(shown)


@given(
    st.sampled_from([SECRET, "${API_KEY}", "${DB_PASSWORD}", "${NONE}", 5, [SECRET], ""]),
    st.sampled_from(["token", "tokens"]),
)
def test_no_token_of_a_profile_is_ever_shown(token, key):
    config = ClientConfig(Path("m.json"), (), (), {"profiles": {"a": {key: token}}})
    try:
        made: object = read_gateway_settings(config, environment=ENVIRONMENT, home=HOME)
    except ConfigError as error:
        made = error
    assert isinstance(made, ConfigError | GatewaySettings)
    assert SECRET not in f"{made} {made!r} {config} {config!r}"
