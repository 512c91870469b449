"""The configuration file of a running gateway, read again when it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import anyio

from ..errors import ConfigError
from .client_config import ClientConfig, read_client_config
from .fleet import Fleet

_LOG = logging.getLogger("shortlist.gateway")


async def reload_on_change(
    path: Path, fleet: Fleet, changed: Callable[[ClientConfig], None] | None = None
) -> None:
    """Take over each change of a configuration file, until cancelled.

    A file that cannot be read changes nothing, and a server that cannot be used any more goes on
    as it was; both are logged.

    Args:
        path: the file.
        fleet: what runs its servers.
        changed: takes what else the file says; may raise ConfigError.
    """
    from watchfiles import awatch

    # The folder is watched, because editors write a new file in place of the old one.
    files = {path.absolute(), path.resolve()}
    folders = {file.parent for file in files}
    changes = awatch(
        *folders,
        watch_filter=lambda _, changed: Path(changed) in files,
        recursive=False,
    )
    async for _ in changes:
        try:
            found = await anyio.to_thread.run_sync(read_client_config, path)
        except ConfigError as error:
            _LOG.warning("%s; the servers go on as they were", error)
            continue
        if changed is not None:
            try:
                changed(found)
            except ConfigError as error:
                _LOG.warning("%s; profiles stay as they were", error)
        for problem in found.problems:
            _LOG.warning("%s: %s", path, problem)
        kept = [fleet.upstreams[name].spec for name in found.skipped if name in fleet.upstreams]
        await fleet.reload([*found.servers, *kept])
