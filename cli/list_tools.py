"""`shortlist list`: the tools of a catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import counted, plain_table, show, write_json
from .gateway.configured_servers import (
    ServersOption,
    SettingsOption,
    listed_engine,
    read_gateway_files,
)
from .options import (
    EngineSettingsOption,
    IndexOption,
    JsonOption,
    QuarantinedOption,
    SourcesOption,
    check_one_source,
)
from .tool_source import read_catalog_and_quarantined

_MAX_DESCRIPTION_CHARS = 200
"""Characters of a description that are shown."""


def list_tools(
    index: IndexOption = None,
    tools: SourcesOption = None,
    config: ServersOption = None,
    settings: SettingsOption = None,
    engine_settings: EngineSettingsOption = None,
    server: Annotated[
        str | None, typer.Option(metavar="NAME", help="List only the tools of this server.")
    ] = None,
    quarantined: QuarantinedOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the tools of an index or of files.

    Needs --index, --tools or --config. With --config, the tools are those that the servers listed
    last. Quarantined tools are listed only with --quarantined.
    """
    check_one_source(
        index=index, tools=tools, config=config, settings=settings, engine_settings=engine_settings
    )
    if config is not None:
        files = read_gateway_files(config, settings)
        engine, _ = listed_engine(files, tiers=["lexical"], default_tier="lexical")
        catalog, quarantined_ids = engine.catalog, frozenset(engine.quarantined)
    else:
        catalog, quarantined_ids = read_catalog_and_quarantined(index, tools, engine_settings)
    if server is not None and server not in catalog.servers:
        names = ", ".join(catalog.servers) or "none"
        raise typer.BadParameter(f"no server {server!r}; use one of: {names}")
    listed = [
        tool
        for tool in catalog
        if (server is None or tool.server == server)
        and (quarantined or tool.id not in quarantined_ids)
    ]
    if as_json:
        write_json({"catalog": catalog.fingerprint, "tools": [tool.to_dict() for tool in listed]})
        return
    table = plain_table("tool", "args", "description", right={"args"}, filling_column="description")
    for tool in listed:
        table.add_row(
            tool.id,
            str(len(tool.parameters)),
            " ".join(tool.description.split())[:_MAX_DESCRIPTION_CHARS],
        )
    servers = {tool.server for tool in listed if tool.server is not None}
    show(table, f"{counted(len(listed), 'tool')} of {counted(len(servers), 'server')}")
