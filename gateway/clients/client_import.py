"""Finds the servers in the files of all known clients, and merges them under unique names.

Also writes servers as entries of `mcpServers`, for the gateway's own file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ...errors import ConfigError
from ..connections.masking import is_harmless, masked_entry
from ..connections.server_spec import CALL_TIMEOUT_S, START_TIMEOUT_S, ServerSpec
from .client_config import ClientConfig, read_client_config
from .known_clients import CLIENTS, GATEWAY_NAME, Client


def mcp_servers_entry(spec: ServerSpec) -> dict[str, Any]:
    """The entry of a server under `mcpServers`; values of `env` and `headers` in plain text.

    `read_entry` reads the same spec from it.
    """
    entry: dict[str, Any] = {}
    if spec.transport == "stdio":
        entry["command"] = spec.command
        entry["args"] = list(spec.args)
    elif spec.transport == "openapi":
        entry["openapi"] = spec.openapi
        entry["url"] = spec.url
    else:
        entry["type"] = spec.transport
        entry["url"] = spec.url
    optional = {
        "headers": spec.revealed_headers(),
        "env": spec.revealed_env(),
        "envFile": spec.env_file,
        "cwd": spec.cwd,
        "description": spec.description,
        "disabled": spec.disabled,
    }
    entry |= {key: value for key, value in optional.items() if value}
    if spec.timeout_s != CALL_TIMEOUT_S:
        entry["timeout_s"] = spec.timeout_s
    if spec.start_timeout_s != START_TIMEOUT_S:
        entry["start_timeout_s"] = spec.start_timeout_s
    tools = {
        **({} if spec.tools.allow is None else {"allow": list(spec.tools.allow)}),
        **({"deny": list(spec.tools.deny)} if spec.tools.deny else {}),
    }
    return {**entry, "tools": tools} if tools else entry


def mcp_json(entries: Mapping[str, Any]) -> str:
    """Text of a file with these servers."""
    return json.dumps({"mcpServers": entries}, indent=2, ensure_ascii=False) + "\n"


def entries_with_references(specs: Iterable[ServerSpec]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Entries with references to variables in place of all values that may be secrets.

    Returns:
        The entries by server, and the names of the variables to set.
    """
    specs = tuple(specs)
    values: dict[str, set[str]] = {}
    for spec in specs:
        for key, value in spec.revealed_env().items():
            values.setdefault(key, set()).add(value)
    entries: dict[str, Any] = {}
    variables: dict[str, None] = {}

    def reference_for(name: str) -> str:
        variable = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "VALUE"
        if variable[0].isdigit():
            variable = f"_{variable}"
        variables[variable] = None
        return f"${{{variable}}}"

    for spec in specs:
        entry = mcp_servers_entry(spec)
        for key, value in entry.get("env", {}).items():
            if "${" not in value:
                entry["env"][key] = reference_for(
                    key if len(values[key]) == 1 else f"{spec.name}_{key}"
                )
        for key, value in entry.get("headers", {}).items():
            if "${" not in value:
                entry["headers"][key] = reference_for(f"{spec.name}_{key}")
        args = ["", *entry.get("args", ())]
        for index, value in enumerate(args[1:]):
            if not is_harmless(value, args[index]) and "${" not in value:
                entry["args"][index] = reference_for(f"{spec.name}_arg_{index + 1}")
        if "url" in entry and masked_entry(entry)["url"] != entry["url"] and "${" not in spec.url:  # type: ignore[operator]
            entry["url"] = reference_for(f"{spec.name}_url")
        entries[spec.name] = entry
    return entries, tuple(variables)


def merge_servers(groups: Mapping[str, Iterable[ServerSpec]]) -> tuple[ServerSpec, ...]:
    """The servers of several clients, under unique names.

    A server with the same configuration in two clients appears once. It is disabled only if both
    disable it. Two different servers with the same name become `NAME` and `NAME-CLIENT`.

    Args:
        groups: servers by the name of their client; the first client keeps its names.
    """
    servers: dict[str, ServerSpec] = {}
    for client, specs in groups.items():
        for spec in specs:
            for name in free_names(spec.name, client):
                existing = servers.get(name)
                if existing is None:
                    servers[name] = with_name(spec, name)
                    break
                if is_same_server(existing, spec):
                    if existing.disabled and not spec.disabled:
                        servers[name] = with_name(spec, name)
                    break
    return tuple(servers.values())


def free_names(name: str, client: str) -> Iterable[str]:
    """Names to try for a server: its own, then with the client's name, then with numbers."""
    yield name
    yield f"{name}-{client}"
    number = 2
    while True:
        yield f"{name}-{client}-{number}"
        number += 1


def is_same_server(first: ServerSpec, second: ServerSpec) -> bool:
    """Whether two specs are equal except for name and `disabled`."""
    ignored = {"name": second.name, "disabled": second.disabled}
    return first.model_copy(update=ignored) == second


def with_name(spec: ServerSpec, name: str) -> ServerSpec:
    """A copy of the server with another name."""
    return spec.model_copy(update={"name": name})


def is_gateway(spec: ServerSpec) -> bool:
    """Whether an entry is this gateway, which must not start itself."""
    programs = {PurePath(word).stem for word in (spec.command or "", *spec.args)}
    return spec.name == GATEWAY_NAME or ("shortlist" in programs and "serve" in spec.args)


def started_gateways(config: ClientConfig) -> dict[Path, Path | None]:
    """Gateways that a client's file starts: path of `--config` to path of `--settings`, or None."""
    gateways: dict[Path, Path | None] = {}
    for spec in config.servers:
        if not is_gateway(spec) or "serve" not in spec.args:
            continue
        options: dict[str, Path] = {}
        words = iter(spec.args[spec.args.index("serve") + 1 :])
        for word in words:
            name, equals, value = word.partition("=")
            if name in ("--config", "--settings"):
                options[name] = Path(spec.cwd or "", value if equals else next(words, ""))
        if "--config" in options:
            gateways[options["--config"]] = options.get("--settings")
    return gateways


@dataclass(frozen=True)
class ExistingConfig:
    """The configuration of one client on this machine.

    Args:
        client: the client.
        path: its file.
        config: content of the file, with references unexpanded; None if it cannot be read.
        error: why it cannot be read; None if it can.
    """

    client: Client
    path: Path
    config: ClientConfig | None
    error: str | None = None

    @property
    def servers(self) -> tuple[ServerSpec, ...]:
        """Its servers, without the gateway itself."""
        servers = () if self.config is None else self.config.servers
        return tuple(spec for spec in servers if not is_gateway(spec))


def find_configs(
    home: Path, clients: Iterable[Client] = CLIENTS.values()
) -> tuple[ExistingConfig, ...]:
    """Files of known clients that exist below a home directory.

    If a file cannot be read, its `error` says why. This function raises nothing.
    """
    configs: list[ExistingConfig] = []
    for client in clients:
        for path in client.paths(home):
            # Both versions of opencode have the same file.
            if not path.is_file() or any(config.path == path for config in configs):
                continue
            try:
                config = read_client_config(path, home=home, expand=False)
            except ConfigError as error:
                configs.append(
                    ExistingConfig(client=client, path=path, config=None, error=str(error))
                )
            else:
                configs.append(ExistingConfig(client=client, path=path, config=config))
    return tuple(configs)


def servers_of_configs(configs: Iterable[ExistingConfig]) -> tuple[ServerSpec, ...]:
    """The servers of several clients under unique names; see `merge_servers`."""
    groups: dict[str, tuple[ServerSpec, ...]] = {}
    for config in configs:
        groups[config.client.name] = groups.get(config.client.name, ()) + config.servers
    return merge_servers(groups)
