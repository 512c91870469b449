"""`shortlist tax`: the tokens every turn pays for tool definitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import show, write_json
from .gateway.configured import ServersOption, SettingsOption
from .options import EncodingOption, JsonOption, SourcesArgument
from .source import catalog_of
from .tax_tables import before_and_after, how_counted, server_table, tool_table

if TYPE_CHECKING:
    from ..loaders.token_tax import TokenTax


def tax(
    context: typer.Context,
    tools: Annotated[list[Path] | None, SourcesArgument] = None,
    config: ServersOption = None,
    settings: SettingsOption = None,
    k: Annotated[
        int,
        typer.Option("-k", "--k", metavar="NUMBER", min=1, help="Number of tools in a selection."),
    ] = 10,
    top: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="Number of largest tools to list.")
    ] = 10,
    encoding: EncodingOption = "cl100k_base",
    as_json: JsonOption = False,
) -> None:
    """Count the tokens that tool definitions cost in every turn.

    The result is compared with the cost of a selection of k tools. With --config, the tools are
    those of the file's servers, and the result is compared with a gateway over these servers.
    """
    if bool(tools) == (config is not None):
        raise typer.BadParameter("give TOOLS or --config FILE")
    if config is not None:
        for name, option in (("k", "-k"), ("encoding", "--encoding")):
            source_of = context.get_parameter_source(name)
            if source_of is not None and source_of.name != "DEFAULT":
                raise typer.BadParameter(f"{option}: does not go with --config")
        _tax_of_servers(config, settings, top, as_json=as_json)
        return
    if not tools or settings is not None:
        raise typer.BadParameter("--settings: goes with --config")
    from ..loaders.token_tax import token_tax

    found = token_tax(catalog_of(tools), k=k, encoding=encoding)
    if as_json:
        write_json(tax_json(found, top))
        return
    parts: list[Any] = [server_table(found), ""]
    if top and found.tools:
        parts += [tool_table(found, top), ""]
    show(*parts, before_and_after(found), how_counted(found))


def _tax_of_servers(config: Path, settings: Path | None, top: int, *, as_json: bool) -> None:
    from .gateway.configured_tax import configured_json, configured_tax, show_configured

    found, cost, problems = configured_tax(config, settings)
    if as_json:
        write_json(configured_json(found, cost, problems, top))
    else:
        show_configured(found, cost, problems, top)


def tax_json(found: TokenTax, top: int) -> dict[str, Any]:
    """The JSON form of a tax, with the heaviest tools by name."""
    return {
        "encoding": found.encoding,
        "counted": "compact JSON of name, description and input_schema of each tool",
        "tools": len(found.tools),
        "tokens_now": found.now,
        "tokens_per_tool": round(found.mean, 1),
        "servers": {
            server: {"tools": count, "tokens": tokens}
            for server, (count, tokens) in found.servers.items()
        },
        "heaviest": [{"id": tool, "tokens": tokens} for tool, tokens in found.heaviest(top)],
        "with_shortlist": {
            "k": found.k,
            "computed": "definition of a search tool, and k definitions of mean size "
            "(at most: the k largest)",
            "search_tool": found.search_tool,
            "tokens": found.selected,
            "tokens_at_most": found.selected_at_most,
        },
    }
