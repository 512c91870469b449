"""`shortlist explain`: why a tool is in an answer, or why it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import counted, note, plain_table, show, write_json
from .options import JsonOption, QueryArgument
from .search import SearchOptions, score_text, unlocked_by_text, with_search_options

if TYPE_CHECKING:
    from ..gating.verdict import Verdict
    from ..retrieval.search.explanation import Explanation
    from ..view import View


@with_search_options
def explain(
    *,
    query: Annotated[str, QueryArgument],
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="Id of the tool, server/name, or its name alone.")
    ],
    options: SearchOptions,
    arguments: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Arguments of a call: show whether it may be made."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show why a query finds a tool, or why not.

    Needs --index, --tools or --config. A table shows the rank of the tool in each stage of the
    search, and which rules concern its single calls. With --config, the tools are those that a
    gateway's servers listed last, for the client's profile.
    """
    engine, view = options.open()
    explanation = view.explain(query, tool, tier=options.tier, k=options.k)
    is_abstained = False
    if options.config is not None:
        selection = view.search(query, tier=options.tier, k=options.k, abstain=True)
        is_abstained = selection.abstained
        if is_abstained:
            note(f"note: the gateway offers no tool for this query: {selection.reason}")
    verdict = None if arguments is None else view.check(explanation.tool, arguments)
    if as_json:
        calls = {"call_rules": [rule.to_dict() for rule in _call_rules(view, explanation)]}
        call = None if verdict is None else verdict.to_dict()
        write_json(explanation.to_dict() | calls | {"call": call})
    else:
        _print_explanation(explanation, len(engine.catalog), is_abstained=is_abstained)
        _print_call(view, explanation, verdict)


def _call_rules(view: View, explanation: Explanation) -> list[Any]:
    return view.admission.call_rules(explanation.tool)


def _print_call(view: View, explanation: Explanation, verdict: Verdict | None) -> None:
    from rich.text import Text

    for rule in _call_rules(view, explanation):
        effect = "a person approves" if rule.approval else "denied:"
        which = " and ".join(test.describe() for test in rule.when)
        calls = f"calls whose {which}, or lacks it" if which else "each call"
        show(Text(f"rule {rule.described()!r}: {effect} {calls}", style="yellow"))
    if verdict is not None:
        words = "this call may be made" if verdict.passed else f"this call: {verdict.status}"
        show(Text(words, style="bold"), Text("" if verdict.passed else verdict.text))


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
