"""Reads the configuration file of a running gateway again when it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import anyio

from ..errors import ConfigError
from .clients.client_config import ClientConfig, read_client_config
from .upstream.fleet import Fleet

_LOG = logging.getLogger("shortlist.gateway")


async def reload_on_change(
    path: Path, fleet: Fleet, changed: Callable[[ClientConfig], None] | None = None
) -> None:
    """Apply each change of a configuration file, until cancelled.

    If the file cannot be read, nothing changes. If a server's new entry cannot be used, the server
    keeps its old one. Both are logged.

    Args:
        path: the file.
        fleet: the servers.
        changed: called with the new configuration; may raise ConfigError.
    """
    from watchfiles import awatch

    # The folder is watched, because editors write a new file in place of the old one.
    files = {path.absolute(), path.resolve()}
    folders = {file.parent for file in files}
    stopping = anyio.Event()
    changes = awatch(
        *folders,
        watch_filter=lambda _, changed: Path(changed) in files,
        stop_event=stopping,
        recursive=False,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(_set_when_cancelled, stopping)
        async for _ in changes:
            try:
                config = await anyio.to_thread.run_sync(read_client_config, path)
            except ConfigError as error:
                _LOG.warning("%s; the servers keep their old configuration", error)
                continue
            if changed is not None:
                try:
                    changed(config)
                except ConfigError as error:
                    _LOG.warning("%s; the profiles keep their old settings", error)
            for problem in config.problems:
                _LOG.warning("%s: %s", path, problem)
            await use_servers(config, fleet)


async def _set_when_cancelled(event: anyio.Event) -> None:
    """The thread that waits for changes sees no cancellation, and would wait five seconds more."""
    try:
        await anyio.sleep_forever()
    finally:
        event.set()


async def use_servers(config: ClientConfig, fleet: Fleet) -> None:
    """Apply the servers of a changed configuration. Those with a bad entry keep their old one.

    Args:
        config: the changed configuration.
        fleet: the servers.
    """
    names = [name for name in config.unusable_servers if name in fleet.upstreams]
    unchanged = [fleet.upstreams[name].spec for name in names]
    await fleet.reload([*config.servers, *unchanged], config.unusable_servers)
