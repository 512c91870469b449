"""The pool: a line for each available tool; counts and topics of servers if the lines are too long.

A server's line starts at the margin, a tool's line is indented. Text of a tool has no newlines, so
it cannot imitate this. If ids are `server/name`, as by default, only the name is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ..catalog import Catalog, Tool
from .counting import bundled_counter
from .levels import Level, compact_signature
from .summaries import Summaries, repeats_name
from .topics import topics

_TOPIC_TOKENS = 400
"""Most tokens of a pool that has no line for each tool."""
_CACHED_VERSIONS = 128
"""Maximum number of cached pools, one for each catalog version and set of denied tools in use."""
_CACHED_LINES = 16_384
"""Maximum number of cached lines; about 2 MB."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The text of a pool.

    The same tools, budget and summaries give the same bytes, in whatever order the tools are.

    Args:
        text: the text, with a newline at the end; "" if there are no tools, or if nothing fits.
        level: what the lines say of each tool; None if the pool has no line for each tool.
        tool_count: number of tools that it covers.
    """

    text: str
    level: Level | None
    tool_count: int


@lru_cache(_CACHED_VERSIONS)
def write_pool(
    catalog: Catalog,
    denied_ids: frozenset[str],
    level: Level,
    budget: int,
    summaries: Summaries,
) -> Pool:
    """The pool of a catalog: a line for each tool if all lines fit, else counts and topics.

    Args:
        catalog: the catalog version.
        denied_ids: ids that are left out completely.
        level: what a line says of its tool: `ARGUMENTS` or `SUMMARY`.
        budget: maximum tokens of the text.
        summaries: summaries of the tools.
    """
    servers: dict[str, list[Tool]] = {}
    for tool in catalog:
        if tool.id not in denied_ids:
            servers.setdefault(tool.server or "", []).append(tool)
    total = sum(map(len, servers.values()))
    if not total:
        return Pool("", level, 0)
    first = f"{_number(total, 'tool')} on {_number(len(servers), 'server')}.\n"
    ordered = {
        server: sorted(servers[server], key=lambda tool: tool.id) for server in sorted(servers)
    }
    lines = _all_lines(first, ordered, level, budget, summaries)
    if lines is not None:
        return Pool(lines, level, total)
    return Pool(_counts_and_topics(first, ordered, min(budget, _TOPIC_TOKENS)), None, total)


def _all_lines(
    first: str,
    servers: Mapping[str, Sequence[Tool]],
    level: Level,
    budget: int,
    summaries: Summaries,
) -> str | None:
    """The lines of all tools; None if they take more than the budget."""
    count = bundled_counter().count
    texts, tokens = [first], count(first)
    for server, tools in servers.items():
        heading = _count_heading(server, len(tools))
        texts.append(heading.text)
        tokens += heading.tokens
        for tool in tools:
            summary = summaries.of(tool) if level is Level.SUMMARY else ""
            line = _count_line(tool, summary)
            texts.append(line.text)
            tokens += line.tokens
        if tokens > budget:
            return None
    return "".join(texts)


def _counts_and_topics(first: str, servers: Mapping[str, Sequence[Tool]], budget: int) -> str:
    """The number of tools, and a line for the servers that fit, those with most tools first."""
    count = bundled_counter().count
    notes = {
        len(servers): "None is listed here; those that a request needs are added.\n",
        0: "The tools that a request needs are added.\n",
    }
    longest_note = _unlisted_note(10**6, 10**6)
    room = budget - count(first) - count(longest_note)
    if room < 0:
        return ""
    listed: dict[str, str] = {}
    for server in sorted(servers, key=lambda name: (-len(servers[name]), name)):
        line = _topic_line(server, servers[server])
        if (tokens := count(line)) > room:
            break
        room -= tokens
        listed[server] = line
    hidden = [server for server in servers if server not in listed]
    tools = sum(len(servers[server]) for server in hidden)
    last = notes.get(len(hidden)) or _unlisted_note(tools, len(hidden))
    return "".join((first, *(listed[server] for server in sorted(listed)), last))


def _unlisted_note(tools: int, servers: int) -> str:
    counts = f"{_number(tools, 'tool')} on {_number(servers, 'server')}"
    return f"Not listed: {counts}. Those that a request needs are added.\n"


def _topic_line(server: str, tools: Sequence[Tool]) -> str:
    """A server with its topics, or with the names of its tools if these are shorter."""
    server_and_count = _server_and_count(server, len(tools))
    names = f"{server_and_count}: {', '.join(map(_label, tools))}\n"
    about = ", ".join(topics(tools))
    digest = f"{server_and_count}: about {about}\n" if about else f"{server_and_count}\n"
    return min(names, digest, key=len)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _server_and_count(server: str, tools: int) -> str:
    return f"{server}/ ({tools})" if server else f"({tools})"


def _label(tool: Tool) -> str:
    """The name if the id is `server/name`, otherwise the id."""
    prefix = f"{tool.server}/" if tool.server else ""
    return tool.id.removeprefix(prefix) if tool.id.startswith(prefix) else f"id {tool.id}"


def _tool_line(tool: Tool, summary: str) -> str:
    """The line of a tool: with its arguments, or with a summary if there is one."""
    if not summary:
        return f" {_label(tool)}{compact_signature(tool)}\n"
    suffix = "" if repeats_name(summary, tool.name) else f": {summary}"
    return f" {_label(tool)}{suffix}\n"


class Lines(NamedTuple):
    """Lines with the arguments of some tools, grouped by server.

    Every line ends with a bracket or a colon and a newline. No token of `cl100k_base` continues
    across that, so the tokens of the text are the sum of the tokens of its lines.

    Attributes:
        text: the lines, ordered by server and id; "" for no tools.
        tokens: tokens of the text.
        tools: the tools.
    """

    text: str = ""
    tokens: int = 0
    tools: tuple[Tool, ...] = ()


class _CountedText(NamedTuple):
    """A text with the number of its tokens."""

    text: str
    tokens: int


def lines_of_tools(always: Iterable[Tool], tools: Iterable[Tool], budget: int) -> Lines:
    """Lines for some tools, and for as many others as fit, first ones first.

    Args:
        always: tools that get a line whatever it takes.
        tools: other tools, best first; ids must differ.
        budget: maximum number of tokens of all lines.
    """
    by_server: dict[str, list[Tool]] = {}
    used_tokens = 0
    candidates = [(tool, True) for tool in always] + [(tool, False) for tool in tools]
    for tool, is_required in candidates:
        server = tool.server or ""
        count = len(by_server.get(server, ()))
        cost = _count_line(tool, "").tokens + _count_heading(server, count + 1).tokens
        cost -= _count_heading(server, count).tokens if count else 0
        if is_required or used_tokens + cost <= budget:
            used_tokens += cost
            by_server.setdefault(server, []).append(tool)
    texts: list[str] = []
    chosen: list[Tool] = []
    for server in sorted(by_server):
        ordered = sorted(by_server[server], key=lambda tool: tool.id)
        texts.append(_count_heading(server, len(ordered)).text)
        texts += (_count_line(tool, "").text for tool in ordered)
        chosen += ordered
    return Lines("".join(texts), used_tokens, tuple(chosen))


@lru_cache(_CACHED_LINES)
def _count_line(tool: Tool, summary: str) -> _CountedText:
    return _count_text(_tool_line(tool, summary))


@lru_cache(_CACHED_LINES)
def _count_heading(server: str, tools: int) -> _CountedText:
    return _count_text(f"{_server_and_count(server, tools)}:\n")


def _count_text(text: str) -> _CountedText:
    return _CountedText(text, bundled_counter().count(text))
