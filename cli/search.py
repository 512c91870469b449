"""`shortlist search`: the tools a request needs, and the options it shares with `explain`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import counted, note, plain_table, show, write_json
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
    QueryArgument,
    SourcesOption,
    check_one_source,
    usage_errors,
)
from .tool_source import open_engine

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..engine import Engine
    from ..gating import Refusal, State
    from ..retrieval import Selection
    from ..view import View


@dataclass(frozen=True)
class SearchOptions:
    """Which tools are searched, in which tier, and what the caller may use."""

    index: IndexOption = None
    tools: SourcesOption = None
    config: ServersOption = None
    settings: SettingsOption = None
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --config: profile of the client; `default` if not given."
        ),
    ] = None
    engine_settings: EngineSettingsOption = None
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="TIER", help="lexical, fast, embed, hybrid, or a tier of the settings."
        ),
    ] = None
    k: Annotated[
        int | None,
        typer.Option(
            "-k", "--k", metavar="NUMBER", min=1, help="Number of tools to return at most."
        ),
    ] = None
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="ID|GLOB", help="Search only these tools, as 'github/*'; repeatable."),
    ] = None
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Scope granted to the agent; repeatable."),
    ] = None
    called: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Id of a tool that the agent called; repeatable."),
    ] = None
    milestone: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Milestone that the agent reached; repeatable."),
    ] = None
    fact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]",
            help="Fact about the agent. The value is a number, true, false or text; true by "
            "default. Repeatable.",
        ),
    ] = None

    def open(self) -> tuple[Engine, View]:
        """The engine, and what the caller may use.

        Entries of `--allow` that match no tool are reported on stderr.

        Raises:
            BadParameter: not exactly one of `--index`, `--tools` and `--config`, no such tier, or
                an empty name.
        """
        from ..gating import State

        with usage_errors("--scope, --called, --milestone, --fact"):
            state = State(
                scopes=frozenset(self.scope or ()),
                called=tuple(self.called or ()),
                milestones=frozenset(self.milestone or ()),
                facts=dict(_parse_fact(text) for text in self.fact or ()),
            )
        check_one_source(
            index=self.index,
            tools=self.tools,
            config=self.config,
            settings=self.settings,
            engine_settings=self.engine_settings,
        )
        if self.config is not None:
            engine, view = self._open_gateway(self.config, state)
        elif self.profile is not None:
            raise typer.BadParameter("--profile: goes with --config")
        else:
            engine = open_engine(
                index=self.index, tools=self.tools, config=self.engine_settings, tier=self.tier
            )
            view = engine.view(state, allowed=self.allow)
        if view.unmatched:
            note(f"note: --allow: not in the catalog: {', '.join(view.unmatched)}")
        return engine, view

    def _open_gateway(self, config: Path, state: State) -> tuple[Engine, View]:
        """The engine of a gateway and the view of its client."""
        files = read_gateway_files(config, self.settings)
        engine, fleet = listed_engine(files)
        from ..gateway.profiles.profile import ClientProfiles, ProfileViews

        client = ClientProfiles.of(files.settings, self.profile or "default").default
        client = replace(client, scopes=client.scopes | state.scopes)
        views = ProfileViews(engine, client, hidden_ids=lambda: fleet.hidden_ids)
        return engine, views.view(state, allowed=self.allow)


def with_search_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `SearchOptions` in place of its parameter `options`."""
    shared = inspect.signature(SearchOptions, eval_str=True).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        parameters += shared.values() if name == "options" else [parameter]

    @wraps(command)
    def run(**values: Any) -> None:
        options = SearchOptions(**{name: values.pop(name) for name in shared})
        command(options=options, **values)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parse_fact(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"--fact {text!r:.80}: no name; write NAME or NAME=VALUE")
    if not separator:
        return name, True
    try:
        read = json.loads(value)
    except ValueError:
        return name, value
    return name, read if isinstance(read, str | bool | int | float) else value


_MAX_DENIED_SHOWN = 3
"""Denied tools that are named, those that fit the request best."""


@with_search_options
def search(
    query: Annotated[str, QueryArgument],
    options: SearchOptions,
    budget_ms: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            help="Time limit of the answer in milliseconds. A cheaper tier runs if time is short.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the tools that fit a query.

    Needs --index, --tools or --config. A table shows the score of each tool and its rank in each
    stage of the search. With --config, the answer is that of the gateway: it searches the tools
    that the servers listed last, for the client's profile, and may decide that no tool fits.
    """
    if budget_ms is not None and not budget_ms > 0:
        raise typer.BadParameter("--budget-ms: a number of milliseconds above 0")
    engine, view = options.open()
    selection = view.search(
        query,
        tier=options.tier,
        k=options.k,
        budget_ms=budget_ms,
        abstain=options.config is not None,
    )
    if as_json:
        write_json(selection.to_dict())
        return
    quarantined = sum(tool_id in engine.catalog for tool_id in engine.quarantined)
    footer = _footer(selection, len(engine.catalog), quarantined)
    if selection.hits:
        show(_hits_table(selection), footer)
    else:
        show(f"no tool found: {selection.reason}" if selection.reason else "no tool found", footer)


def score_text(score: float) -> str:
    """A score in four significant digits, whatever its units."""
    return f"{score:.4g}"


def refusal_lines(refusals: Iterable[Refusal]) -> list[str]:
    """A line for each reason: the tools, the reason, what unlocks them."""
    tools: dict[str, list[str]] = {}
    for refusal in refusals:
        tools.setdefault(f"{refusal.reason}{unlocked_by_text(refusal)}", []).append(refusal.tool_id)
    return [f"  {', '.join(ids)}: {reason}" for reason, ids in tools.items()]


def unlocked_by_text(refusal: Refusal) -> str:
    """The end of a tool's line: the tools that unlock it."""
    return f"; unlocked by {', '.join(refusal.unlocked_by)}" if refusal.unlocked_by else ""


def _hits_table(selection: Selection) -> Table:
    stages = list(dict.fromkeys(stage for hit in selection for stage in hit.stages))
    table = plain_table("#", "tool", "score", *stages, right={"#", "score", *stages})
    for hit in selection:
        stage_results = (hit.stages.get(stage) for stage in stages)
        table.add_row(
            str(hit.rank),
            hit.id,
            score_text(hit.score),
            *(str(stage_result.rank) if stage_result else "–" for stage_result in stage_results),
        )
    return table


def _footer(selection: Selection, count: int, quarantined: int) -> Text:
    from rich.text import Text

    text = Text()
    if selection.tier_reason:
        text.append(f"asked for {selection.tier_asked}, ran {selection.tier}: ", style="yellow")
        text.append(f"{selection.tier_reason}\n", style="yellow")
    if selection.dropped:
        text.append(
            f"dropped: {counted(len(selection.dropped), 'tool')} with a score below "
            f"{selection.threshold:.4g}\n"
        )
    if denied := len(selection.denied):
        lines = refusal_lines(selection.denied.nearest(_MAX_DENIED_SHOWN))
        some = f", {quarantined:,} of them quarantined" if quarantined else ""
        text.append(f"denied: {denied:,} of {counted(count, 'tool')}{some}; the nearest:\n")
        text.append("\n".join(lines) + "\n")
    stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in selection.timings.items())
    text.append(
        f"{selection.tier} over {counted(count, 'tool')} in {selection.total_ms:.1f} ms"
        + (f" ({stages})" if stages else ""),
        style="dim",
    )
    return text
