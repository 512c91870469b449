"""`shortlist demo`: six servers, a dozen queries, every tier side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer

from .console import console, plain_table, progress, show, write_json
from .options import JsonOption
from .tax import tax_json
from .tax_tables import before_and_after, how_counted, server_table

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..demo import Request
    from ..engine import Engine
    from ..loaders.token_tax import TokenTax
    from ..retrieval import Hit, Selection

_K = 10
_TWO_HITS, _THREE_HITS = 96, 116
"""Columns of a terminal from which a second and a third hit are shown."""
_INDENT, _TIER, _MS, _RANKS, _GAP = 4, 7, 9, 7, 2
"""Columns of an answer's parts before its hits."""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("demo")(demo)


@dataclass(frozen=True, slots=True)
class _Round:
    """One request and what every tier answered."""

    request: Request
    answers: Mapping[str, Selection]

    def places(self, tier: str) -> list[int | None]:
        """Rank of each relevant tool in a tier's answer, None where it is not in it."""
        ranks = {hit.id: hit.rank for hit in self.answers[tier]}
        return [ranks.get(tool) for tool in self.request.relevant]


@dataclass(frozen=True, slots=True)
class _Tier:
    """One tier over all queries.

    Args:
        first: queries whose first tool is relevant.
        complete: queries with all relevant tools among the first ten.
        median_ms: of the answers' times.
        tokens: of the offered definitions with the search tool, mean.
    """

    first: int
    complete: int
    median_ms: float
    tokens: float

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "first_is_relevant": self.first,
            "all_in_top_10": self.complete,
            "median_ms": round(self.median_ms, 3),
            "mean_tokens": round(self.tokens, 1),
        }


def demo(as_json: JsonOption = False) -> None:
    """Try every tier on 120 sample tools, offline."""
    from .. import demo as material
    from ..engine import Engine
    from ..loaders.token_tax import token_tax

    catalog, requests = material.load_catalog(), material.load_requests()
    start = perf_counter()
    with progress("encoding tools") as report:
        engine = Engine.from_tools(catalog, k=_K, progress=report)
    seconds = perf_counter() - start
    rounds = _ask(engine, requests)
    tax = token_tax(catalog, k=_K, encoding="cl100k_base")
    tiers = {tier: _summary(rounds, tier, tax) for tier in engine.tiers}
    default = engine.config.default_tier
    if as_json:
        write_json(
            {
                "tools": len(catalog),
                "servers": list(catalog.servers),
                "index_seconds": round(seconds, 3),
                "requests": [_round_json(one) for one in rounds],
                "tiers": {tier: found.to_dict() for tier, found in tiers.items()},
                "tax": tax_json(tax, _K),
            }
        )
        return
    opening = _opening(len(catalog), len(catalog.servers), len(rounds), seconds)
    _show(opening, rounds, tiers, default, tax)


def _ask(engine: Engine, requests: Sequence[Request]) -> list[_Round]:
    for tier in engine.tiers:
        engine.search("warm up", tier=tier)  # models load on their first use
    return [
        _Round(
            request,
            {tier: engine.search(request.query, tier=tier) for tier in engine.tiers},
        )
        for request in requests
    ]


def _summary(rounds: Sequence[_Round], tier: str, tax: TokenTax) -> _Tier:
    from statistics import mean, median

    answers = [one.answers[tier] for one in rounds]
    return _Tier(
        first=sum(1 in one.places(tier) for one in rounds),
        complete=sum(None not in one.places(tier) for one in rounds),
        median_ms=median(answer.total_ms for answer in answers),
        tokens=mean(
            tax.search_tool + sum(tax.tools[tool] for tool in answer.ids) for answer in answers
        ),
    )


def _round_json(one: _Round) -> dict[str, Any]:
    relevant = one.request.relevant
    return {
        "query": one.request.query,
        "relevant": list(relevant),
        "tiers": {
            tier: {
                "tier": answer.tier,
                "tier_reason": answer.tier_reason,
                "ms": round(answer.total_ms, 3),
                "hits": [
                    {
                        "id": hit.id,
                        "rank": hit.rank,
                        "score": hit.score,
                        "relevant": hit.id in relevant,
                    }
                    for hit in answer
                ],
            }
            for tier, answer in one.answers.items()
        },
    }


def _show(
    opening: Text,
    rounds: Sequence[_Round],
    tiers: Mapping[str, _Tier],
    default: str,
    tax: TokenTax,
) -> None:
    from rich.padding import Padding

    width = console().width
    names = Counter(tool.rpartition("/")[2] for tool in tax.tools)
    parts: list[Any] = [opening, ""]
    for number, one in enumerate(rounds, 1):
        answers = _answers(one, names, width - _INDENT)
        parts += [
            _question(number, one.request),
            Padding(answers, (0, 0, 1, _INDENT), expand=False),
        ]
    parts += [_heading("All queries"), _summary_table(tiers, len(rounds))]
    parts += [
        *_replaced(rounds),
        "",
        _heading("Tokens of all definitions, every turn"),
        server_table(tax),
        "",
    ]
    parts += [
        _heading("Tokens of the tools that are offered, every turn"),
        _after(tax, default, tiers[default]),
        how_counted(tax),
    ]
    show(*parts)


def _opening(tools: int, servers: int, requests: int, seconds: float) -> Text:
    from rich.text import Text

    return Text.assemble(
        ("shortlist", "bold"),
        f"  {tools} tools of {servers} servers, indexed in {seconds:.1f} s, offline\n",
        (f"{requests} queries in every tier: time, ", "dim"),
        ("#rank", "green"),
        (" of the right tools, – if not in the first ten; best hits with their scores", "dim"),
    )


def _heading(text: str) -> Text:
    from rich.text import Text

    return Text(text, style="bold underline")


def _question(number: int, request: Request) -> Table:
    from rich.table import Table
    from rich.text import Text

    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=_INDENT - 2, justify="right")
    row.add_row(Text(str(number), style="dim"), Text(request.query, style="bold"))
    return row


def _answers(one: _Round, names: Mapping[str, int], width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    shown = 1 + (width + _INDENT >= _TWO_HITS) + (width + _INDENT >= _THREE_HITS)
    rest = width - _TIER - _MS - _RANKS - 3 * _GAP
    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_column(width=_TIER, no_wrap=True)
    table.add_column(width=_MS, no_wrap=True, justify="right")
    table.add_column(width=_RANKS, no_wrap=True)
    for _ in range(shown):
        table.add_column(width=rest // shown - _GAP, no_wrap=True, overflow="ellipsis")
    for tier, answer in one.answers.items():
        places = one.places(tier)
        ranks = " ".join("–" if place is None else f"#{place}" for place in places)
        style = "green" if 1 in places else "red" if None in places else "yellow"
        table.add_row(
            Text(tier, style="cyan" if answer.tier == tier else "dim"),
            Text(f"{answer.total_ms:.1f} ms", style="dim"),
            Text(ranks, style=style),
            *(_hit(hit, one.request, names) for hit in answer.hits[:shown]),
        )
    return table


def _hit(hit: Hit, request: Request, names: Mapping[str, int]) -> Text:
    """A hit by its name, with the server where several tools have that name."""
    from rich.text import Text

    relevant = hit.id in request.relevant
    return Text.assemble(
        ("✓ " if relevant else "  ", "bold green"),
        (f"{hit.score:>5.3g} ", "dim"),
        (hit.tool.name if names[hit.tool.name] == 1 else hit.id, "green" if relevant else ""),
    )


def _summary_table(tiers: Mapping[str, _Tier], requests: int) -> Table:
    columns = ("first is right", "all in the ten", "median", "tokens offered")
    table = plain_table("tier", *columns, right=columns)
    for tier, found in tiers.items():
        table.add_row(
            tier,
            f"{found.first} of {requests}",
            f"{found.complete} of {requests}",
            f"{found.median_ms:.1f} ms",
            f"{found.tokens:,.0f}",
        )
    return table


def _replaced(rounds: Sequence[_Round]) -> list[Text]:
    """A line for every tier that another one answered for, and why."""
    from rich.text import Text

    return [
        Text(f"{tier} ran as {answer.tier}: {answer.tier_reason}", style="yellow")
        for tier, answer in rounds[0].answers.items()
        if answer.tier != tier
    ]


def _after(tax: TokenTax, tier: str, found: _Tier) -> Table:
    table = before_and_after(tax)
    table.add_row(
        f"measured: search tool + what {tier} offered",
        f"{found.tokens:,.0f}",
        tax.saved(found.tokens),
    )
    return table
