"""Finds the servers in the files of all clients on a machine, and gives them unique names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import chain, count
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ..connections.masking import is_harmless, masked_entry
from ..connections.server_spec import ServerSpec
from .client_config import ClientConfig, read_client_config
from .config_references import REFERENCE
from .known_clients import CLIENTS, Client
from .server_entry import mcp_servers_entry

_SCHEME = re.compile(r"^(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
"""Name of an authorization scheme, before its credential in a header."""


def find_configs(
    home: Path, clients: Iterable[Client] = CLIENTS.values()
) -> tuple[tuple[Client, ClientConfig], ...]:
    """Clients and their files that exist below a home directory, with references unexpanded.

    A file that cannot be read has no servers, and a problem that says why.
    """
    configs: dict[Path, tuple[Client, ClientConfig]] = {}
    for client in clients:
        for path in client.paths(home):
            # Both versions of opencode have the same file.
            if not path.is_file() or path in configs:
                continue
            try:
                config = read_client_config(path, home=home, expand=False)
            except ConfigError as error:
                config = ClientConfig(path, problems=(f"not read: {error}",))
            configs[path] = (client, config)
    return tuple(configs.values())


def merge_servers(groups: Iterable[tuple[str, Iterable[ServerSpec]]]) -> tuple[ServerSpec, ...]:
    """The servers of several clients, under unique names.

    A server with the same configuration in two clients appears once. It is disabled only if both
    disable it. Two different servers with the same name become `NAME` and `NAME-CLIENT`.

    Args:
        groups: the name of each client, and its servers; the first client keeps its names.
    """
    servers: dict[str, ServerSpec] = {}
    for client, specs in groups:
        for spec in specs:
            add_server(servers, spec, client)
    return tuple(servers.values())


def add_server(
    servers: dict[str, ServerSpec], spec: ServerSpec, client: str, taken: Collection[str] = ()
) -> str:
    """Add a server under a free name, unless the same server is there already.

    Args:
        servers: servers by name, which is changed.
        spec: the server.
        client: name of its client, for the new name if its own is taken.
        taken: further names that are not free.

    Returns:
        The name under which `servers` has it.
    """

    def is_free(name: str) -> bool:
        existing = servers.get(name)
        return name not in taken if existing is None else is_same_server(existing, spec)

    new_name = f"{spec.name}-{client}"
    numbered_names = (f"{new_name}-{number}" for number in count(2))
    name = next(filter(is_free, chain((spec.name, new_name), numbered_names)))
    existing = servers.get(name)
    if existing is None or (existing.disabled and not spec.disabled):
        servers[name] = spec.model_copy(update={"name": name})
    return name


def is_same_server(first: ServerSpec, second: ServerSpec) -> bool:
    """Whether two specs are equal except for name and `disabled`."""
    ignored = {"name": second.name, "disabled": second.disabled}
    return first.model_copy(update=ignored) == second


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
    value_of: dict[str, str] = {}

    def reference_for(name: str, value: str) -> str:
        stem = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "VALUE"
        if stem[0].isdigit():
            stem = f"_{stem}"
        names = (f"{stem}_{number}" if number > 1 else stem for number in count(1))
        # Names that differ in punctuation only must not share a secret.
        variable = next(name for name in names if value_of.get(name, value) == value)
        value_of[variable] = value
        return f"${{{variable}}}"

    for spec in specs:
        entry = mcp_servers_entry(spec)
        for key, value in entry.get("env", {}).items():
            if not _is_reference(value):
                name = key if len(values[key]) == 1 else f"{spec.name}_{key}"
                entry["env"][key] = reference_for(name, value)
        for table in (entry.get("headers", {}), entry.get("credentials", {})):
            for key, value in table.items():
                if not _is_reference(value):
                    table[key] = reference_for(f"{spec.name}_{key}", value)
        args = ["", *entry.get("args", ())]
        for index, value in enumerate(args[1:]):
            if not (is_harmless(value, args[index]) or _is_reference(value)):
                entry["args"][index] = reference_for(f"{spec.name}_arg_{index + 1}", value)
        url = entry.get("url")
        if url and not _is_reference(url) and masked_entry({"url": url}) != {"url": url}:
            entry["url"] = reference_for(f"{spec.name}_url", url)
        entries[spec.name] = entry
    return entries, tuple(value_of)


def _is_reference(value: str) -> bool:
    """Whether a value has references and, beside them, nothing that may be a secret."""
    without = REFERENCE.sub("x", value)
    return without != value and is_harmless(_SCHEME.sub("", without))
