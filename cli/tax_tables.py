"""Tables of what tool definitions cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .console import counted, plain_table

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..loaders.token_tax import TokenTax

_BAR = 24
"""Cells of the longest bar."""


def server_table(found: TokenTax) -> Table:
    """Tokens by server, with bars."""
    table = plain_table(
        "server", "tools", "tokens", "per tool", "share", "",
        right={"tools", "tokens", "per tool", "share"},
    )  # fmt: skip
    largest = max((tokens for _, tokens in found.servers.values()), default=0)
    for server, (count, tokens) in found.servers.items():
        bar = "█" * max(1, round(_BAR * tokens / largest))
        share = f"{tokens / found.now:.0%}"
        row = (server or "(none)", f"{count:,}", f"{tokens:,}", f"{tokens / count:,.0f}", share)
        table.add_row(*row, _styled(bar, "red"))
    total = ("all", f"{len(found.tools):,}", f"{found.now:,}", f"{found.mean:,.0f}", "", "")
    table.add_section()
    table.add_row(*total, style="bold")
    return table


def before_and_after(found: TokenTax) -> Table:
    """Tokens of every turn, without and with a selection."""
    table = plain_table("every turn", "tokens", "", right={"tokens"})
    table.add_row(
        f"all {counted(len(found.tools), 'definition')}, as now",
        _styled(f"{found.now:,}", "bold red"),
        "",
    )
    count = min(found.k, len(found.tools))
    table.add_row(
        f"search tool + {count} of mean size",
        _styled(f"{found.selected:,}", "bold green"),
        found.saved(found.selected),
    )
    table.add_row(
        f"search tool + the {count} largest",
        f"{found.selected_at_most:,}",
        found.saved(found.selected_at_most),
    )
    return table


def how_counted(found: TokenTax) -> Text:
    """A line about how the figures were counted."""
    return _styled(
        f"{found.encoding} tokens of compact JSON with name, description and input_schema; "
        f"the search tool is {found.search_tool} of them",
        "dim",
    )


def tool_table(found: TokenTax, top: int) -> Table:
    """The largest definitions."""
    table = plain_table("heaviest tools", "tokens", right={"tokens"})
    for tool, tokens in found.heaviest(top):
        table.add_row(tool, f"{tokens:,}")
    return table


def _styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)
