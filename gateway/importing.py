"""Finds and joins the configurations of all known clients on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError
from .client_config import ClientConfig, read_client_config
from .clients import CLIENTS, Client
from .mcp_json import is_gateway, merged
from .server_spec import ServerSpec


@dataclass(frozen=True)
class FoundConfig:
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
        return tuple(one for one in servers if not is_gateway(one))


def find_configs(
    home: Path, clients: Iterable[Client] = CLIENTS.values()
) -> tuple[FoundConfig, ...]:
    """Files of known clients that exist below a home directory.

    If a file cannot be read, its `error` says why. This function raises nothing.
    """
    found = []
    for client in clients:
        for path in client.paths(home):
            if not path.is_file():
                continue
            try:
                config = read_client_config(path, home=home, expand=False)
            except ConfigError as error:
                found.append(FoundConfig(client, path, None, str(error)))
            else:
                found.append(FoundConfig(client, path, config))
    return tuple(found)


def imported(found: Iterable[FoundConfig]) -> tuple[ServerSpec, ...]:
    """The servers of several clients under unique names; see `mcp_json.merged`."""
    groups: dict[str, tuple[ServerSpec, ...]] = {}
    for one in found:
        groups[one.client.name] = groups.get(one.client.name, ()) + one.servers
    return merged(groups)
