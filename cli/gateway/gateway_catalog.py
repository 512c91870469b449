"""The tools behind a gateway, as its servers listed them last, and the file of their pins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..console import note

if TYPE_CHECKING:
    from ...catalog import Catalog


def gateway_catalog(config: Path, settings: Path | None = None) -> tuple[Catalog, Path]:
    """The catalog of a gateway without starting a server, and its file of pins.

    Servers that never ran here are named on stderr.

    Args:
        config: file with the servers.
        settings: the gateway's settings, if not in it.

    Raises:
        ConfigError: a file cannot be read.
        MissingExtraError: the gateway is not installed.
    """
    from ...errors import MissingExtraError

    try:
        from ...gateway.first_use import default_pins
        from ...gateway.fleet import Fleet
    except ImportError as missing:
        raise MissingExtraError("the gateway", "gateway") from missing
    from ...gateway.client_config import read_client_config
    from ...gateway.gateway_settings import read_gateway_settings

    found = read_client_config(config)
    chosen = read_gateway_settings(found, settings)
    fleet = Fleet(found.servers, engine_settings={"tiers": ["lexical"], "trust": {"scan": False}})
    if fleet.starting:
        note(f"not known yet, since they never ran: {', '.join(fleet.starting)}")
    return fleet.engine.catalog, chosen.pins or default_pins(config)
