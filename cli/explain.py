"""`shortlist explain`: why a tool is in an answer, or why it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, note, plain_table, show, write_json
from .options import JsonOption, QueryArgument
from .search import SearchOptions, score_text, unlocked_by_text, with_search_options

if TYPE_CHECKING:
    from ..retrieval.search.explanation import Explanation


@with_search_options
def explain(
    *,
    query: Annotated[str, QueryArgument],
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="Id of the tool, server/name, or its name alone.")
    ],
    options: SearchOptions,
    as_json: JsonOption = False,
) -> None:
    """Show why a query finds a tool, or why not.

    Needs --index, --tools or --config. A table shows the rank of the tool in each stage of the
    search. With --config, the tools are those that a gateway's servers listed last, for the
    client's profile.
    """
    engine, view = options.open()
    explanation = view.explain(query, tool, tier=options.tier, k=options.k)
    is_abstained = False
    if options.config is not None:
        selection = view.search(query, tier=options.tier, k=options.k, abstain=True)
        is_abstained = selection.abstained
        if is_abstained:
            note(f"note: the gateway offers no tool for this query: {selection.reason}")
    if as_json:
        write_json(explanation.to_dict())
    else:
        _print_explanation(explanation, len(engine.catalog), is_abstained=is_abstained)


def _print_explanation(explanation: Explanation, count: int, *, is_abstained: bool) -> None:
    from rich.text import Text

    ending = "" if explanation.refusal is None else unlocked_by_text(explanation.refusal)
    if is_abstained:
        offer, reason, color = (
            "no tool",
            "no tool fits the query; without this decision: ",
            "yellow",
        )
    else:
        offer, reason = counted(explanation.k, "tool"), ""
        color = "green" if explanation.offered else "yellow"
    verdict = Text.assemble(
        (explanation.tool, "bold"),
        f" in tier {explanation.tier}, {offer} offered\n",
        (reason + explanation.reason + ending, color),
    )
    if not explanation.stages:
        show(verdict)
        return
    table = plain_table("stage", "rank", "score", right={"rank", "score"})
    for stage, place in explanation.stages.items():
        if place is None:
            table.add_row(stage, "–", "no match")
        else:
            table.add_row(stage, f"{place.rank:,} of {count:,}", score_text(place.score))
    if explanation.rank is not None:
        table.add_row("answer", f"{explanation.rank:,} of {count:,}", "", style="bold")
    show(verdict, "", table)
