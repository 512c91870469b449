"""`shortlist demo`: six servers, a dozen queries, every tier side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .console import plain_table, progress, show, write_json
from .options import JsonOption
from .tax import how_counted, selection_json, server_table, tax_json, with_selection

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..demo import DemoQuery
    from ..loaders.token_tax import TokenTax
    from ..retrieval import Selection

    Answered = tuple[DemoQuery, Mapping[str, Selection]]

_HITS_SEARCHED = 10
_HITS_SHOWN, _HIT_COLUMNS = 3, 36
"""Hits shown of one answer, as far as there is room, and columns of each."""


def demo(as_json: JsonOption = False) -> None:
    """Try every tier on 120 sample tools, offline."""
    from .. import demo as material
    from ..engine import Engine
    from ..loaders.token_tax import token_tax

    catalog, requests = material.load_catalog(), material.load_requests()
    start = perf_counter()
    with progress("encoding tools") as show_progress:
        engine = Engine.from_tools(catalog, k=_HITS_SEARCHED, progress=show_progress)
    seconds = perf_counter() - start
    for tier in engine.tiers:
        engine.search("warm up", tier=tier)  # models load on their first use
    answered_queries = [
        (request, {tier: engine.search(request.query, tier=tier) for tier in engine.tiers})
        for request in requests
    ]
    tax = token_tax(catalog, k=_HITS_SEARCHED, encoding="cl100k_base")
    tiers = {tier: _summary(answered_queries, tier, tax) for tier in engine.tiers}
    if as_json:
        write_json(
            {
                "tools": len(catalog),
                "servers": list(catalog.servers),
                "index_seconds": round(seconds, 3),
                "requests": [
                    _request_json(request, answers) for request, answers in answered_queries
                ],
                "tiers": tiers,
                "tax": tax_json(tax, _HITS_SEARCHED, selection_json(tax)),
            }
        )
        return
    opening = (
        f"{len(catalog)} tools of {len(catalog.servers)} servers, indexed in {seconds:.1f} s, "
        f"offline\n{len(answered_queries)} queries in every tier: time, #rank of the right tools "
        "(– if not in the first ten), best hits with their scores"
    )
    _print_demo(opening, answered_queries, tiers, engine.config.default_tier, tax)


def _ranks_of_relevant(request: DemoQuery, answer: Selection) -> list[int | None]:
    """Rank of each relevant tool, None where it is not in the answer."""
    ranks = {hit.id: hit.rank for hit in answer}
    return [ranks.get(tool) for tool in request.relevant]


def _summary(answered_queries: Sequence[Answered], tier: str, tax: TokenTax) -> dict[str, Any]:
    """One tier over all queries; tokens are of the offered definitions with the search tool."""
    from statistics import mean, median

    selections = [answers[tier] for _, answers in answered_queries]
    ranks_by_query = [
        _ranks_of_relevant(request, answers[tier]) for request, answers in answered_queries
    ]
    tokens = mean(
        tax.search_tool + sum(tax.tool_tokens[tool] for tool in selection.ids)
        for selection in selections
    )
    return {
        "first_is_relevant": sum(1 in ranks for ranks in ranks_by_query),
        "all_in_top_10": sum(None not in ranks for ranks in ranks_by_query),
        "median_ms": round(median(answer.total_ms for answer in selections), 3),
        "mean_tokens": round(tokens, 1),
    }


def _request_json(request: DemoQuery, answers: Mapping[str, Selection]) -> dict[str, Any]:
    tiers = {
        tier: {
            "tier": answer.tier,
            "tier_reason": answer.tier_reason,
            "ms": round(answer.total_ms, 3),
            "hits": [
                {"id": hit.id, "rank": hit.rank, "score": hit.score}
                | {"relevant": hit.id in request.relevant}
                for hit in answer
            ],
        }
        for tier, answer in answers.items()
    }
    return {"query": request.query, "relevant": list(request.relevant), "tiers": tiers}


def _print_demo(
    opening: str,
    answered_queries: Sequence[Answered],
    tiers: Mapping[str, Mapping[str, Any]],
    default: str,
    tax: TokenTax,
) -> None:
    from rich.padding import Padding
    from rich.text import Text

    parts: list[Any] = [Text("shortlist", style="bold"), opening]
    for number, (request, answers) in enumerate(answered_queries, 1):
        parts += ["", Text(f"{number}. {request.query}", style="bold")]
        parts.append(Padding(_answer_table(request, answers), (0, 0, 0, 4)))
    columns = ("first is right", "all in the ten", "median", "tokens offered")
    table = plain_table("tier", *columns, right=columns)
    for tier, figures in tiers.items():
        table.add_row(
            tier,
            f"{figures['first_is_relevant']} of {len(answered_queries)}",
            f"{figures['all_in_top_10']} of {len(answered_queries)}",
            f"{figures['median_ms']:.1f} ms",
            f"{figures['mean_tokens']:,.0f}",
        )
    parts += ["", _heading("All queries"), table]
    parts += [
        Text(f"{tier} ran as {answer.tier}: {answer.tier_reason}", style="yellow")
        for tier, answer in answered_queries[0][1].items()
        if answer.tier != tier
    ]
    parts += ["", _heading("Tokens of all definitions, every turn"), server_table(tax)]
    parts += ["", _heading("Tokens of the tools that are offered, every turn")]
    offered, after = tiers[default]["mean_tokens"], with_selection(tax)
    measured = f"measured: search tool + what {default} offered"
    after.add_row(measured, f"{offered:,.0f}", tax.saving_text(offered))
    show(*parts, after, how_counted(tax))


def _heading(text: str) -> Text:
    from rich.text import Text

    return Text(text, style="bold underline")


def _answer_table(request: DemoQuery, answers: Mapping[str, Selection]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(width=7, no_wrap=True)
    table.add_column(width=9, no_wrap=True, justify="right")
    table.add_column(width=7, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for tier, answer in answers.items():
        ranks = _ranks_of_relevant(request, answer)
        hits = Text()
        for hit in answer.hits[:_HITS_SHOWN]:
            right = hit.id in request.relevant
            line = f"{'✓' if right else ' '} {hit.score:>5.3g} {hit.id}"
            hits.append(line.ljust(_HIT_COLUMNS), style="green" if right else "")
        table.add_row(
            Text(tier, style="cyan" if answer.tier == tier else "dim"),
            Text(f"{answer.total_ms:.1f} ms", style="dim"),
            Text(
                " ".join("–" if rank is None else f"#{rank}" for rank in ranks),
                style="green" if 1 in ranks else "red" if None in ranks else "yellow",
            ),
            hits,
        )
    return table
