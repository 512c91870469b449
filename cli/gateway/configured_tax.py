"""`shortlist tax --config`: token cost of a file's servers, without and with shortlist.

The cost with shortlist is measured with an MCP client at a gateway over the same servers: the
listed definitions, and the answers to searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...errors import CatalogError
from ...loaders.token_tax import TokenTax
from ..console import counted, note, plain_table, show
from ..tax_tables import server_table, tool_table
from .configured import fleet_of, logs_silenced, read_configured

if TYPE_CHECKING:
    import mcp.types as types

    from ...catalog import Tool
    from ...gateway.fleet import Fleet
    from ...gateway.profile import Profile

_SEARCHES = 20
"""Searches whose answers are measured."""


@dataclass(frozen=True, slots=True)
class ShortlistCost:
    """Token cost for clients of the gateway.

    Args:
        tools: number of tools that they see.
        tokens: tokens of the definitions of these tools.
        passed_through: whether these are the servers' own tools, because there are few.
        searches: how many searches were measured.
        answer: tokens of an answer of `search_tools` on average.
        definition: tokens of an answer of `get_tool_details` for one tool, on average.
    """

    tools: int
    tokens: int
    passed_through: bool
    searches: int
    answer: float
    definition: float

    @property
    def searching(self) -> int:
        """Tokens of a turn with one search and one definition."""
        return round(self.tokens + self.answer + self.definition)


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
    found, chosen = read_configured(config, settings)
    import anyio

    from ...gateway.gateway_settings import ProfileSettings
    from ...gateway.inspection import inspect_servers
    from ...gateway.profile import Profile

    with logs_silenced():
        fleet = fleet_of(found, chosen.engine)
        if fleet.starting:
            note(f"starting {counted(len(fleet.starting), 'server')} whose tools are not known yet")

        async def inspected() -> Any:
            return await inspect_servers(fleet, only_unknown=True)

        reports = anyio.run(inspected)
        tools = {tool: count for one in reports for tool, count in one.tokens.items()}
        problems = {one.name: one.problems for one in reports if not one.available}
        if not tools:
            told = "; ".join(f"{name}: {', '.join(why)}" for name, why in problems.items())
            raise CatalogError(f"{config}: no server lists a tool{': ' if told else ''}{told}")
        profile = Profile.of(chosen, "all", ProfileSettings())
        cost = anyio.run(_measured, fleet, profile)
    servers = {
        one.name: (len(one.tokens), sum(one.tokens.values())) for one in reports if one.tokens
    }
    by_cost = dict(sorted(servers.items(), key=lambda item: -item[1][1]))
    return TokenTax("cl100k_base", 0, tools, by_cost, 0), cost, problems


async def _measured(fleet: Fleet, profile: Profile) -> ShortlistCost:
    """Measure what a client of a gateway over the fleet reads. No server needs to run."""
    from mcp import Client

    from ...gateway.definition_tokens import shown_tokens, text_tokens
    from ...gateway.meta_tools import DETAILS, SEARCH
    from ...gateway.server import Gateway

    async with Client(Gateway(fleet, profile).server) as client:
        listed = (await client.list_tools()).tools
        passed_through = SEARCH not in {tool.name for tool in listed}
        answers: list[int] = []
        definitions: list[int] = []
        for tool in [] if passed_through else _sample(fleet.engine.view().tools()):
            asked = {"query": tool.description[:200].strip() or tool.name}
            found: types.CallToolResult = await client.call_tool(SEARCH, asked)
            answers.append(text_tokens(found))
            told = await client.call_tool(DETAILS, {"names": [tool.id]})
            definitions.append(text_tokens(told))
    return ShortlistCost(
        len(listed),
        shown_tokens(listed),
        passed_through,
        len(answers),
        fmean(answers) if answers else 0.0,
        fmean(definitions) if definitions else 0.0,
    )


def _sample(tools: tuple[Tool, ...]) -> list[Tool]:
    """Tools at even distances over all of them."""
    step = max(1, len(tools) // _SEARCHES)
    return list(tools[::step][:_SEARCHES])


def configured_json(
    found: TokenTax, cost: ShortlistCost, problems: dict[str, tuple[str, ...]], top: int
) -> dict[str, Any]:
    """The JSON form."""
    return {
        "encoding": found.encoding,
        "tools": len(found.tools),
        "tokens_now": found.now,
        "servers": {
            server: {"tools": count, "tokens": tokens}
            for server, (count, tokens) in found.servers.items()
        },
        "heaviest": [{"id": tool, "tokens": tokens} for tool, tokens in found.heaviest(top)],
        "with_shortlist": {
            "tools": cost.tools,
            "tokens": cost.tokens,
            "passed_through": cost.passed_through,
            "searches_measured": cost.searches,
            "search_answer": round(cost.answer, 1),
            "definition": round(cost.definition, 1),
            "tokens_with_a_search": cost.searching,
        },
        "not_counted": {name: list(why) for name, why in problems.items()},
    }


def show_configured(
    found: TokenTax, cost: ShortlistCost, problems: dict[str, tuple[str, ...]], top: int
) -> None:
    """Print what is paid now and with shortlist."""
    from rich.text import Text

    for name, why in problems.items():
        note(f"not counted: {name}: {'; '.join(why)}")
    parts: list[Any] = [server_table(found), ""]
    if top:
        parts += [tool_table(found, top), ""]
    table = plain_table("every turn", "tokens", "", right={"tokens"})
    all_tools = f"all {counted(len(found.tools), 'definition')}, as now"
    table.add_row(all_tools, Text(f"{found.now:,}", style="bold red"), "")
    if cost.passed_through:
        table.add_row("with shortlist: the same, passed through", f"{cost.tokens:,}", "")
        parts += [table, Text("So few definitions are shown directly: there is nothing to save.")]
    else:
        table.add_row(
            f"with shortlist: {counted(cost.tools, 'tool')}",
            Text(f"{cost.tokens:,}", style="bold green"),
            found.saved(cost.tokens),
        )
        table.add_row(
            "and in a turn that searches once", f"{cost.searching:,}", found.saved(cost.searching)
        )
        parts += [
            table,
            Text(
                f"{found.encoding} tokens. A search: its answer ({cost.answer:,.0f}) and one "
                f"definition ({cost.definition:,.0f}), on average of {cost.searches} searches",
                style="dim",
            ),
        ]
    show(*parts)
