"""`shortlist tax`: the tokens every turn pays for tool definitions.

With --config, the cost with shortlist is measured with an MCP client at a gateway over the same
servers: the listed definitions, and the answers to searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
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
)
from .options import EncodingOption, JsonOption, SourcesArgument, check_one_source
from .tool_source import catalog_of

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

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
    check_one_source(tools_argument=tools, config=config, settings=settings)
    if config is not None:
        for name, option in (("k", "-k"), ("encoding", "--encoding")):
            source_of = context.get_parameter_source(name)
            if source_of is not None and source_of.name != "DEFAULT":
                raise typer.BadParameter(f"{option}: does not go with --config")
        tax, cost, problems = _tax_of_servers(config, settings)
        if as_json:
            not_counted = {name: list(reasons) for name, reasons in problems.items()}
            write_json(tax_json(tax, top, cost.to_dict()) | {"not_counted": not_counted})
            return
        for name, reasons in problems.items():
            note(f"not counted: {name}: {'; '.join(reasons)}")
        last_parts = _with_gateway(tax, cost)
    else:
        from ..loaders.token_tax import token_tax

        tax = token_tax(catalog_of(tools or ()), k=k, encoding=encoding)
        if as_json:
            write_json(tax_json(tax, top, selection_json(tax)))
            return
        last_parts = [with_selection(tax), how_counted(tax)]
    parts: list[Any] = [server_table(tax), ""]
    if top and tax.tool_tokens:
        table = plain_table("heaviest tools", "tokens", right={"tokens"})
        for tool, tokens in tax.heaviest(top):
            table.add_row(tool, f"{tokens:,}")
        parts += [table, ""]
    show(*parts, *last_parts)


def tax_json(tax: TokenTax, top: int, with_shortlist: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON form of a tax, with the heaviest tools by name and the tokens with shortlist."""
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
        "with_shortlist": with_shortlist,
    }


def selection_json(tax: TokenTax) -> dict[str, Any]:
    """The tokens of a search tool and k definitions."""
    return {
        "k": tax.k,
        "computed": "definition of a search tool, and k definitions of mean size "
        "(at most: the k largest)",
        "search_tool": tax.search_tool,
        "tokens": tax.selection_tokens,
        "tokens_at_most": tax.max_selection_tokens,
    }


def server_table(tax: TokenTax) -> Table:
    """Tokens by server, with bars."""
    from rich.text import Text

    table = plain_table(
        "server", "tools", "tokens", "per tool", "share", "",
        right={"tools", "tokens", "per tool", "share"},
    )  # fmt: skip
    largest = max((tokens for _, tokens in tax.server_tokens.values()), default=0)
    for server, (count, tokens) in tax.server_tokens.items():
        bar = "█" * max(1, round(_MAX_BAR_CELLS * tokens / largest))
        share = f"{tokens / tax.total_tokens:.0%}"
        row = (server or "(none)", f"{count:,}", f"{tokens:,}", f"{tokens / count:,.0f}", share)
        table.add_row(*row, Text(bar, style="red"))
    table.add_section()
    totals = (f"{len(tax.tool_tokens):,}", f"{tax.total_tokens:,}", f"{tax.mean_tokens:,.0f}")
    table.add_row("all", *totals, "", "", style="bold")
    return table


def _every_turn(tax: TokenTax, *rows: tuple[str, int]) -> Table:
    """Tokens of every turn: of all definitions, and of what is sent instead."""
    from rich.text import Text

    table = plain_table("every turn", "tokens", "", right={"tokens"})
    all_tools = f"all {counted(len(tax.tool_tokens), 'definition')}, as now"
    table.add_row(all_tools, Text(f"{tax.total_tokens:,}", style="bold red"), "")
    for number, (what, tokens) in enumerate(rows):
        style = "" if number else "bold green"
        table.add_row(what, Text(f"{tokens:,}", style=style), tax.saving_text(tokens))
    return table


def with_selection(tax: TokenTax) -> Table:
    """Tokens of every turn, without and with a selection."""
    count = min(tax.k, len(tax.tool_tokens))
    return _every_turn(
        tax,
        (f"search tool + {count} of mean size", tax.selection_tokens),
        (f"search tool + the {count} largest", tax.max_selection_tokens),
    )


def how_counted(tax: TokenTax) -> Text:
    """A line about how the figures were counted."""
    from rich.text import Text

    return Text(
        f"{tax.encoding} tokens of compact JSON with name, description and input_schema; "
        f"the search tool is {tax.search_tool} of them",
        style="dim",
    )


@dataclass(frozen=True, slots=True)
class GatewayCost:
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

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "tools": self.tool_count,
            "tokens": self.listed_tokens,
            "passed_through": self.shows_all_tools,
            "searches_measured": self.search_count,
            "search_answer": round(self.answer_tokens, 1),
            "definition": round(self.definition_tokens, 1),
            "tokens_with_a_search": self.tokens_with_search,
        }


def _tax_of_servers(
    config: Path, settings: Path | None
) -> tuple[TokenTax, GatewayCost, dict[str, tuple[str, ...]]]:
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
    from ..loaders.token_tax import token_tax

    with logs_silenced():
        fleet = files.fleet(files.settings.engine)
        if fleet.unlisted_servers:
            unlisted = counted(len(fleet.unlisted_servers), "server")
            note(f"starting {unlisted} whose tools are not known yet")
        reports = anyio.run(partial(inspect_servers, fleet, only_unlisted=True))
        problems = {report.name: report.problems for report in reports if not report.available}
        tax = token_tax(fleet.engine.catalog, k=0, encoding="cl100k_base")
        if not tax.tool_tokens:
            reasons = "; ".join(f"{name}: {', '.join(lines)}" for name, lines in problems.items())
            raise CatalogError(
                f"{files.path}: no server lists a tool{': ' if reasons else ''}{reasons}"
            )
        profile = Profile.of(files.settings, "all", ProfileSettings())
        cost = anyio.run(_measure_gateway, fleet, profile)
    by_cost = dict(sorted(tax.server_tokens.items(), key=lambda item: -item[1][1]))
    return replace(tax, server_tokens=by_cost), cost, problems


async def _measure_gateway(fleet: Fleet, profile: Profile) -> GatewayCost:
    """Measure what a client of a gateway over the fleet reads. No server needs to run."""
    from mcp import Client

    from ..gateway.observe.definition_tokens import answer_tokens, shown_tokens
    from ..gateway.profiles.profile import GET_TOOL_DETAILS, SEARCH_TOOLS
    from ..gateway.server import Gateway

    tools = fleet.engine.view().tools()
    sample = tools[:: max(1, len(tools) // _MEASURED_SEARCHES)][:_MEASURED_SEARCHES]
    async with Client(Gateway(fleet=fleet, profile=profile).server) as client:
        listed = (await client.list_tools()).tools
        shows_all_tools = SEARCH_TOOLS not in {tool.name for tool in listed}
        answers: list[int] = []
        definitions: list[int] = []
        for tool in () if shows_all_tools else sample:
            query = {"query": tool.description[:200].strip() or tool.name}
            answers.append(answer_tokens(await client.call_tool(SEARCH_TOOLS, query)))
            details = await client.call_tool(GET_TOOL_DETAILS, {"names": [tool.id]})
            definitions.append(answer_tokens(details))
    return GatewayCost(
        tool_count=len(listed),
        listed_tokens=shown_tokens(listed),
        shows_all_tools=shows_all_tools,
        search_count=len(answers),
        answer_tokens=fmean(answers) if answers else 0.0,
        definition_tokens=fmean(definitions) if definitions else 0.0,
    )


def _with_gateway(tax: TokenTax, cost: GatewayCost) -> list[Any]:
    """Tokens of every turn, without and with the gateway, and how they were counted."""
    from rich.text import Text

    if cost.shows_all_tools:
        table = _every_turn(tax)
        table.add_row("with shortlist: the same, passed through", f"{cost.listed_tokens:,}", "")
        return [table, "So few definitions are shown directly: there is nothing to save."]
    table = _every_turn(
        tax,
        (f"with shortlist: {counted(cost.tool_count, 'tool')}", cost.listed_tokens),
        ("and in a turn that searches once", cost.tokens_with_search),
    )
    counts = (
        f"{tax.encoding} tokens. A search: its answer ({cost.answer_tokens:,.0f}) and one "
        f"definition ({cost.definition_tokens:,.0f}), on average of {cost.search_count} searches"
    )
    return [table, Text(counts, style="dim")]
