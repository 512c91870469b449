"""`shortlist tax`: the tokens every turn pays for tool definitions.

With --config, the cost with shortlist is measured with an MCP client at a gateway over the same
servers: the listed definitions, and the answers to searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CatalogError
from .console import counted, note, plain_table, show, write_json
from .gateway.configured_servers import (
    ServersOption,
    SettingsOption,
    logs_silenced,
    read_gateway_files,
    unstarted_fleet,
)
from .options import EncodingOption, JsonOption, SourcesArgument
from .tool_source import catalog_of

if TYPE_CHECKING:
    import mcp.types as types
    from rich.table import Table
    from rich.text import Text

    from ..catalog import Tool
    from ..gateway.profiles.profile import Profile
    from ..gateway.upstream.fleet import Fleet
    from ..loaders.token_tax import TokenTax

#: Searches whose answers are measured with --config.
_MEASURED_SEARCHES = 20
#: Cells of the longest bar.
_MAX_BAR_CELLS = 24


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
        _show_tax_of_servers(config, settings, top, as_json=as_json)
        return
    if not tools or settings is not None:
        raise typer.BadParameter("--settings: goes with --config")
    from ..loaders.token_tax import token_tax

    result = token_tax(catalog_of(tools), k=k, encoding=encoding)
    if as_json:
        write_json(tax_json(result, top))
        return
    parts: list[Any] = [server_table(result), ""]
    if top and result.tool_tokens:
        parts += [tool_table(result, top), ""]
    show(*parts, before_and_after(result), how_counted(result))


def _show_tax_of_servers(config: Path, settings: Path | None, top: int, *, as_json: bool) -> None:
    tax, cost, problems = configured_tax(config, settings)
    if as_json:
        write_json(configured_json(tax, cost, problems, top))
    else:
        show_configured(tax, cost, problems, top)


def tax_json(tax: TokenTax, top: int) -> dict[str, Any]:
    """The JSON form of a tax, with the heaviest tools by name."""
    return {
        "encoding": tax.encoding,
        "counted": "compact JSON of name, description and input_schema of each tool",
        "tools": len(tax.tool_tokens),
        "tokens_now": tax.total_tokens,
        "tokens_per_tool": round(tax.mean_tokens, 1),
        "servers": {
            server: {"tools": count, "tokens": tokens}
            for server, (count, tokens) in tax.server_tokens.items()
        },
        "heaviest": [{"id": tool, "tokens": tokens} for tool, tokens in tax.heaviest(top)],
        "with_shortlist": {
            "k": tax.k,
            "computed": "definition of a search tool, and k definitions of mean size "
            "(at most: the k largest)",
            "search_tool": tax.search_tool,
            "tokens": tax.selection_tokens,
            "tokens_at_most": tax.max_selection_tokens,
        },
    }


def server_table(tax: TokenTax) -> Table:
    """Tokens by server, with bars."""
    table = plain_table(
        "server", "tools", "tokens", "per tool", "share", "",
        right={"tools", "tokens", "per tool", "share"},
    )  # fmt: skip
    largest = max((tokens for _, tokens in tax.server_tokens.values()), default=0)
    for server, (count, tokens) in tax.server_tokens.items():
        bar = "█" * max(1, round(_MAX_BAR_CELLS * tokens / largest))
        share = f"{tokens / tax.total_tokens:.0%}"
        row = (server or "(none)", f"{count:,}", f"{tokens:,}", f"{tokens / count:,.0f}", share)
        table.add_row(*row, _styled(bar, "red"))
    total = (
        "all",
        f"{len(tax.tool_tokens):,}",
        f"{tax.total_tokens:,}",
        f"{tax.mean_tokens:,.0f}",
        "",
        "",
    )
    table.add_section()
    table.add_row(*total, style="bold")
    return table


def before_and_after(tax: TokenTax) -> Table:
    """Tokens of every turn, without and with a selection."""
    table = plain_table("every turn", "tokens", "", right={"tokens"})
    table.add_row(
        f"all {counted(len(tax.tool_tokens), 'definition')}, as now",
        _styled(f"{tax.total_tokens:,}", "bold red"),
        "",
    )
    count = min(tax.k, len(tax.tool_tokens))
    table.add_row(
        f"search tool + {count} of mean size",
        _styled(f"{tax.selection_tokens:,}", "bold green"),
        tax.saving_text(tax.selection_tokens),
    )
    table.add_row(
        f"search tool + the {count} largest",
        f"{tax.max_selection_tokens:,}",
        tax.saving_text(tax.max_selection_tokens),
    )
    return table


def how_counted(tax: TokenTax) -> Text:
    """A line about how the figures were counted."""
    return _styled(
        f"{tax.encoding} tokens of compact JSON with name, description and input_schema; "
        f"the search tool is {tax.search_tool} of them",
        "dim",
    )


def tool_table(tax: TokenTax, top: int) -> Table:
    """The largest definitions."""
    table = plain_table("heaviest tools", "tokens", right={"tokens"})
    for tool, tokens in tax.heaviest(top):
        table.add_row(tool, f"{tokens:,}")
    return table


def _styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)


@dataclass(frozen=True, slots=True)
class ShortlistCost:
    """Token cost for clients of the gateway.

    Args:
        tool_count: number of tools that they see.
        listed_tokens: tokens of the definitions of these tools.
        shows_all_tools: whether these are the servers' own tools, because there are few.
        search_count: how many searches were measured.
        answer_tokens: tokens of an answer of `search_tools` on average.
        definition_tokens: tokens of an answer of `get_tool_details` for one tool, on average.
    """

    tool_count: int
    listed_tokens: int
    shows_all_tools: bool
    search_count: int
    answer_tokens: float
    definition_tokens: float

    @property
    def tokens_with_search(self) -> int:
        """Tokens of a turn with one search and one definition."""
        return round(self.listed_tokens + self.answer_tokens + self.definition_tokens)


def configured_tax(
    config: Path, settings: Path | None
) -> tuple[TokenTax, ShortlistCost, dict[str, tuple[str, ...]]]:
    """Count the tokens of all definitions of a file's servers, and those of the gateway.

    Servers that were never started before are started.

    Returns:
        The cost of all definitions, the cost with shortlist, and the problems of servers whose
        tools are not counted.

    Raises:
        MissingExtraError: the extra `gateway` is not installed.
        ConfigError: a file cannot be read, or a setting is wrong.
        CatalogError: no server lists a tool.
    """
    files = read_gateway_files(config, settings)
    import anyio

    from ..gateway.observe.server_inspection import inspect_servers
    from ..gateway.profiles.gateway_settings import ProfileSettings
    from ..gateway.profiles.profile import Profile
    from ..loaders.token_tax import TokenTax

    with logs_silenced():
        fleet = unstarted_fleet(files.client_config, files.settings.engine)
        if fleet.unlisted_servers:
            unlisted = counted(len(fleet.unlisted_servers), "server")
            note(f"starting {unlisted} whose tools are not known yet")

        async def inspect() -> Any:
            return await inspect_servers(fleet, only_unlisted=True)

        reports = anyio.run(inspect)
        tools = {tool: count for report in reports for tool, count in report.tokens.items()}
        problems = {report.name: report.problems for report in reports if not report.available}
        if not tools:
            reasons = "; ".join(f"{name}: {', '.join(lines)}" for name, lines in problems.items())
            raise CatalogError(
                f"{files.path}: no server lists a tool{': ' if reasons else ''}{reasons}"
            )
        profile = Profile.of(files.settings, "all", ProfileSettings())
        cost = anyio.run(_measure_gateway, fleet, profile)
    servers = {
        report.name: (len(report.tokens), sum(report.tokens.values()))
        for report in reports
        if report.tokens
    }
    by_cost = dict(sorted(servers.items(), key=lambda item: -item[1][1]))
    return (
        TokenTax(
            encoding="cl100k_base", k=0, tool_tokens=tools, server_tokens=by_cost, search_tool=0
        ),
        cost,
        problems,
    )


async def _measure_gateway(fleet: Fleet, profile: Profile) -> ShortlistCost:
    """Measure what a client of a gateway over the fleet reads. No server needs to run."""
    from mcp import Client

    from ..gateway.observe.definition_tokens import answer_tokens, shown_tokens
    from ..gateway.profiles.profile import GET_TOOL_DETAILS, SEARCH_TOOLS
    from ..gateway.server import Gateway

    async with Client(Gateway(fleet=fleet, profile=profile).server) as client:
        listed = (await client.list_tools()).tools
        shows_all_tools = SEARCH_TOOLS not in {tool.name for tool in listed}
        answers: list[int] = []
        definitions: list[int] = []
        for tool in [] if shows_all_tools else _sample(fleet.engine.view().tools()):
            search_arguments = {"query": tool.description[:200].strip() or tool.name}
            answer: types.CallToolResult = await client.call_tool(SEARCH_TOOLS, search_arguments)
            answers.append(answer_tokens(answer))
            details = await client.call_tool(GET_TOOL_DETAILS, {"names": [tool.id]})
            definitions.append(answer_tokens(details))
    return ShortlistCost(
        tool_count=len(listed),
        listed_tokens=shown_tokens(listed),
        shows_all_tools=shows_all_tools,
        search_count=len(answers),
        answer_tokens=fmean(answers) if answers else 0.0,
        definition_tokens=fmean(definitions) if definitions else 0.0,
    )


def _sample(tools: tuple[Tool, ...]) -> list[Tool]:
    """Tools at even distances over all of them."""
    step = max(1, len(tools) // _MEASURED_SEARCHES)
    return list(tools[::step][:_MEASURED_SEARCHES])


def configured_json(
    tax: TokenTax, cost: ShortlistCost, problems: dict[str, tuple[str, ...]], top: int
) -> dict[str, Any]:
    """The JSON form."""
    return {
        "encoding": tax.encoding,
        "tools": len(tax.tool_tokens),
        "tokens_now": tax.total_tokens,
        "servers": {
            server: {"tools": count, "tokens": tokens}
            for server, (count, tokens) in tax.server_tokens.items()
        },
        "heaviest": [{"id": tool, "tokens": tokens} for tool, tokens in tax.heaviest(top)],
        "with_shortlist": {
            "tools": cost.tool_count,
            "tokens": cost.listed_tokens,
            "passed_through": cost.shows_all_tools,
            "searches_measured": cost.search_count,
            "search_answer": round(cost.answer_tokens, 1),
            "definition": round(cost.definition_tokens, 1),
            "tokens_with_a_search": cost.tokens_with_search,
        },
        "not_counted": {name: list(reasons) for name, reasons in problems.items()},
    }


def show_configured(
    tax: TokenTax, cost: ShortlistCost, problems: dict[str, tuple[str, ...]], top: int
) -> None:
    """Print what is paid now and with shortlist."""
    from rich.text import Text

    for name, reasons in problems.items():
        note(f"not counted: {name}: {'; '.join(reasons)}")
    parts: list[Any] = [server_table(tax), ""]
    if top:
        parts += [tool_table(tax, top), ""]
    table = plain_table("every turn", "tokens", "", right={"tokens"})
    all_tools = f"all {counted(len(tax.tool_tokens), 'definition')}, as now"
    table.add_row(all_tools, Text(f"{tax.total_tokens:,}", style="bold red"), "")
    if cost.shows_all_tools:
        table.add_row("with shortlist: the same, passed through", f"{cost.listed_tokens:,}", "")
        parts += [table, Text("So few definitions are shown directly: there is nothing to save.")]
    else:
        table.add_row(
            f"with shortlist: {counted(cost.tool_count, 'tool')}",
            Text(f"{cost.listed_tokens:,}", style="bold green"),
            tax.saving_text(cost.listed_tokens),
        )
        table.add_row(
            "and in a turn that searches once",
            f"{cost.tokens_with_search:,}",
            tax.saving_text(cost.tokens_with_search),
        )
        parts += [
            table,
            Text(
                f"{tax.encoding} tokens. A search: its answer ({cost.answer_tokens:,.0f}) and one "
                f"definition ({cost.definition_tokens:,.0f}), on average of "
                f"{cost.search_count} searches",
                style="dim",
            ),
        ]
    show(*parts)
