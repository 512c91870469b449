"""`shortlist stats`: figures from a file of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EventError
from .console import counted, first_lines, note, plain_table, show, write_json
from .gateway.configured_servers import ServersOption, SettingsOption, read_gateway_files
from .options import JsonOption, check_one_source

if TYPE_CHECKING:
    from datetime import datetime

    from rich.table import Table

    from ..session.event import Event
    from ..session.event_stats import EventStats

_MAX_ROWS_SHOWN = 10
"""Servers and tools shown; the JSON holds all."""
_NAME_COLUMNS = 24
"""Columns of a server's name."""


def stats(
    events: Annotated[
        Path | None,
        typer.Argument(metavar="EVENTS", help="File of events, one JSON object per line."),
    ] = None,
    config: ServersOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Summarize recorded events: tokens, searches, calls, servers.

    Needs EVENTS, or --config for the file that the settings of a gateway name.
    """
    from ..session.event_stats import EventStats

    check_one_source(events=events, config=config, settings=settings)
    if config is not None:
        files = read_gateway_files(config, settings)
        events = files.events
        if events is None:
            raise EventError(
                f'{files.path}: no events are recorded; set "events": "events.jsonl" under the key '
                "`shortlist`"
            )
    assert events is not None
    event_stats = EventStats(_read_rows(events))
    if event_stats.first_time is None:
        raise EventError(f"{events}: no events; docs/observing.md explains how to record them")
    if as_json:
        write_json(event_stats.to_dict())
    else:
        show(*_report_parts(event_stats))


def _read_rows(path: Path) -> Iterator[Event]:
    from ..session.recorder import read_events

    for event in read_events(path):
        if isinstance(event, EventError):
            note(f"skipped: {event}")
        else:
            yield event


def _report_parts(event_stats: EventStats) -> Iterator[Any]:
    from rich.text import Text

    first, last = (_minute_text(event_stats.first_time), _minute_text(event_stats.last_time))
    yield Text(
        f"{first} to {last}, {counted(len(event_stats.open_searches), 'conversation')}",
        style="bold",
    )
    if event_stats.definition_tokens:
        yield from ("", _tokens_table(event_stats))
    if event_stats.search_outcomes:
        yield from ("", _searches_table(event_stats))
    if event_stats.call_outcomes:
        yield from ("", _counts_table("calls", event_stats.call_outcomes))
    if event_stats.script_outcomes:
        yield from ("", _counts_table("scripts", event_stats.script_outcomes))
    if event_stats.servers:
        yield from ("", _servers_table(event_stats))
    if event_stats.tool_ids and event_stats.days >= 1:
        never = event_stats.never_found
        text = Text(
            f"tools never found: {len(never):,} of {len(event_stats.tool_ids):,}", style="bold"
        )
        for line in first_lines(never, _MAX_ROWS_SHOWN):
            text.append(f"\n  {line}", style="not bold")
        yield from ("", text)
        if len(event_stats.profile_tools) > 1:
            yield from ("", _profiles_table(event_stats))


def _tokens_table(event_stats: EventStats) -> Table:
    table = plain_table("tokens, each conversation counted once", "", "", right={""})
    table.columns[1].justify = "right"
    table.columns[2].justify = "left"
    table.add_row("definitions of all tools", f"{event_stats.definition_tokens:,}", "")
    for kind, words in (
        ("list", "definitions shown"),
        ("search", "answers of searches"),
        ("details", "definitions asked for"),
    ):
        table.add_row(words, f"{-event_stats.sent_tokens[kind]:,}", "")
    share = f"{event_stats.saved_tokens / event_stats.definition_tokens:.0%}"
    table.add_row("saved", f"{event_stats.saved_tokens:,}", share, style="bold")
    return table


def _searches_table(event_stats: EventStats) -> Table:
    table = _counts_table("searches", event_stats.search_outcomes)
    total = event_stats.search_outcomes.total()
    table.add_row("found, and none of the tools called", f"{event_stats.not_called_count:,}", "")
    table.add_row(
        "misses",
        f"{event_stats.missed_count:,}",
        f"{event_stats.missed_count / total:.0%}",
        style="bold",
    )
    return table


def _counts_table(title: str, counts: Counter[str]) -> Table:
    table = plain_table(title, f"{counts.total():,}", "")
    table.columns[1].justify = "right"
    for name, count in counts.most_common():
        table.add_row(name.replace("_", " "), f"{count:,}", f"{count / counts.total():.0%}")
    return table


def _servers_table(event_stats: EventStats) -> Table:
    numbers = ("calls", "failed", "p50 ms", "p95 ms", "starts", "failures")
    table = plain_table("slowest servers", *numbers, right=set(numbers))
    first = table.columns[0]
    first.no_wrap, first.max_width, first.overflow = True, _NAME_COLUMNS, "ellipsis"
    for name, server_stats in event_stats.slowest()[:_MAX_ROWS_SHOWN]:
        figures = server_stats.to_dict()
        table.add_row(
            name,
            f"{figures['calls']:,}",
            f"{server_stats.failed_calls:,}",
            _ms_text(figures["p50_ms"]),
            _ms_text(figures["p95_ms"]),
            f"{figures['starts']:,}",
            f"{server_stats.failures:,}",
        )
    return table


def _profiles_table(event_stats: EventStats) -> Table:
    table = plain_table("profiles", "tools", "never found", right={"tools", "never found"})
    for profile, never_found in event_stats.never_found_by_profile.items():
        tools = event_stats.profile_tools[profile] & event_stats.tool_ids
        table.add_row(profile, f"{len(tools):,}", f"{len(never_found):,}")
    return table


def _ms_text(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def _minute_text(time: datetime | None) -> str:
    """A recorded time without seconds."""
    return "" if time is None else f"{time:%Y-%m-%d %H:%M}"
