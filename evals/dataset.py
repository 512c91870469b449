"""Data sets of an evaluation: labelled queries and tools from files; bad rows are reported.

One object a line: `query` (text) or `messages` (a conversation that ends with the user),
`relevant` (ids, or names that only one tool bears; empty when no tool serves the query) or `tool`
(one of these), optionally
`pool` (the ids offered to this query). Every other scalar field is kept, for breaking results down.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..catalog import Catalog, Tool, read_tools
from ..catalog.text_file import MAX_FILE_BYTES, open_file
from ..errors import EvaluationError

_MAX_CONTEXT_CHARS = 600
"""Maximum characters of earlier messages that are added to the last user message; about 150
tokens."""

_OWN_KEYS = frozenset({"query", "messages", "relevant", "tool", "pool"})


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """One labelled query.

    Args:
        text: the text to search for.
        relevant: ids of the right tools, without repetitions; empty if no tool fits.
        pool: ids that it is limited to; None for the whole catalog.
        fields: the row's other scalar fields as text, such as its style.
        source: file of the row.
        row: line number in the file, from 1.
        messages: the conversation from which the text was made; empty for a single query.
    """

    text: str
    relevant: tuple[str, ...]
    pool: tuple[str, ...] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    row: int = 0
    messages: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be read, or was repaired.

    Args:
        source: file of the row.
        row: line number in the file, from 1; None if the file has no rows.
        reason: what is wrong with it.
        left_out: whether the row was left out; a repaired one is reported too.
    """

    source: str
    row: int | None
    reason: str
    left_out: bool = True

    def __str__(self) -> str:
        fate = "left out" if self.left_out else "kept"
        place = self.source if self.row is None else f"{self.source}, row {self.row}"
        return f"{place}: {self.reason} ({fate})"


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The usable rows of one or more files, and those that are not.

    Args:
        queries: the usable rows.
        malformed: rows that were left out or repaired.
        digest: hash of the usable rows as written, in any order: what is asked, which tools are
            right, and the pools where queries are limited to them.
    """

    queries: tuple[LabelledQuery, ...]
    malformed: tuple[RowProblem, ...]
    digest: str


class RowError(Exception):
    """The problem of one row. It becomes a `RowProblem`."""


def conversation_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text searched for at the end of a conversation.

    The last user message comes first, because encoders cut long texts at the end. Earlier messages
    follow, newest first, up to a limit.

    Raises:
        RowError: a message has no role or content, or the user never speaks.
    """
    turns: list[tuple[str, str]] = []
    for message in messages:
        if not isinstance(message, Mapping):
            raise RowError("messages: each must be an object")
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise RowError("messages: each needs a role and a content, both text")
        turns.append((role, content.strip()))
    user_turns = [at for at, (role, content) in enumerate(turns) if role == "user" and content]
    if not user_turns:
        raise RowError("messages: none is from the user")
    last = user_turns[-1]
    earlier = " ".join(content for _, content in reversed(turns[:last]))
    return f"{turns[last][1]}\n{earlier[:_MAX_CONTEXT_CHARS]}".strip()


def read_queries(
    paths: Iterable[str | Path], catalog: Catalog, *, limit_to_pool: bool = False
) -> QuerySet:
    """Read labelled queries and resolve the tools that they name.

    Args:
        paths: JSONL files, read one after the other.
        catalog: the tools their ids and names refer to.
        limit_to_pool: whether each query is limited to its own pool. It must then have a pool with
            its relevant tools. Otherwise pools are ignored.

    Raises:
        EvaluationError: a file cannot be read, or no row of any is usable.
    """
    queries: list[LabelledQuery] = []
    malformed: list[RowProblem] = []
    measured_rows: list[str] = []
    files = [Path(path) for path in paths]
    for path in files:
        ids: dict[str, int] = {}
        for row, line in file_lines(path):
            try:
                fields = parse_object(line)
                query, repairs = _read_row(fields, catalog, limit_to_pool, path.name, row)
            except RowError as error:
                malformed.append(RowProblem(path.name, row, str(error)))
                continue
            queries.append(query)
            measured_rows.append(_measured_part(fields, limit_to_pool))
            first = ids.setdefault(query.fields.get("id", ""), row)
            if "id" in query.fields and first != row:
                repairs.append(f"id: {query.fields['id']!r} was row {first}'s too")
            malformed.extend(RowProblem(path.name, row, note, left_out=False) for note in repairs)
    if not queries:
        names = ", ".join(str(path) for path in files)
        problem = f"; first problem: {malformed[0]}" if malformed else ""
        raise EvaluationError(f"{names}: no usable query{problem}")
    digest = blake2b("\n".join(sorted(measured_rows)).encode(), digest_size=16).hexdigest()
    return QuerySet(tuple(queries), tuple(malformed), digest)


def parse_object(line: bytes | str) -> dict[str, Any]:
    """One JSON object.

    Raises:
        RowError: it is not JSON in UTF-8, nested too deep, or not an object.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RowError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise RowError(f"a row must be an object, not {type(row).__name__}")
    return row


def file_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines of a file with their numbers, from 1. Blank lines are skipped.

    Raises:
        EvaluationError: it cannot be read.
    """
    try:
        with open_file(path, 4 * MAX_FILE_BYTES, error=EvaluationError) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise EvaluationError(f"{path}: cannot be read: {error.strerror}") from error


def _measured_part(row: Mapping[str, Any], limit_to_pool: bool) -> str:
    """The fields of a row that its figures depend on, as JSON."""
    names = _OWN_KEYS if limit_to_pool else _OWN_KEYS - {"pool"}
    return json.dumps({name: row[name] for name in names & row.keys()}, sort_keys=True)


def _read_row(
    row: Mapping[str, Any], catalog: Catalog, limit_to_pool: bool, source: str, number: int
) -> tuple[LabelledQuery, list[str]]:
    repairs: list[str] = []
    names = [row["tool"]] if "tool" in row else row.get("relevant")
    relevant = _resolve("relevant", names, catalog, repairs)
    pool = None
    if limit_to_pool:
        if "pool" not in row:
            raise RowError("pool: missing; --pool queries needs one in each row")
        pool = _resolve("pool", row["pool"], catalog, repairs)
        outside = [tool_id for tool_id in relevant if tool_id not in set(pool)]
        if outside:
            raise RowError(f"relevant: {outside[0]!r} is not in the row's pool")
    fields = {
        key: str(value)
        for key, value in row.items()
        if key not in _OWN_KEYS and isinstance(value, str | int | float)
    }
    text, messages = _text(row), row.get("messages") or ()
    return LabelledQuery(text, relevant, pool, fields, source, number, tuple(messages)), repairs


def _text(row: Mapping[str, Any]) -> str:
    messages = row.get("messages")
    if messages is not None:
        if not isinstance(messages, list):
            raise RowError("messages: must be a list")
        return conversation_text(messages)
    text = row.get("query")
    if not isinstance(text, str) or not text.strip():
        raise RowError("query: missing or empty, and there are no messages")
    return text


def _resolve(key: str, names: object, catalog: Catalog, repairs: list[str]) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RowError(f"{key}: must be a list of tool ids")
    resolved = [_tool_id(key, name, catalog) for name in names]
    unique = tuple(dict.fromkeys(resolved))
    if len(unique) < len(resolved):
        repeated = next(tool_id for at, tool_id in enumerate(resolved) if tool_id in resolved[:at])
        repairs.append(f"{key}: {repeated!r} is listed twice")
    return unique


def _tool_id(key: str, name: str, catalog: Catalog) -> str:
    if name in catalog:
        return name
    bearers = [catalog[int(ordinal)].id for ordinal in catalog.named(name)]
    if not bearers:
        raise RowError(f"{key}: no tool has the id or name {name!r}")
    if len(bearers) > 1:
        raise RowError(f"{key}: the name {name!r} is the name of {', '.join(sorted(bearers)[:4])}")
    return bearers[0]


_PLACE = re.compile(r"line (\d+)|\[(\d+)\]")


def read_tool_files(paths: Sequence[str | Path]) -> tuple[Catalog, tuple[RowProblem, ...]]:
    """The tools of files, and the definitions that are bad or repeat an id.

    Of two definitions with one id, the later one is renamed, or left out if both are equal.

    Args:
        paths: files or folders in any format that `read_tools` reads.

    Raises:
        CatalogError: a source cannot be read at all.
    """
    malformed: list[RowProblem] = []
    tools: list[Tool] = []
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for path in map(Path, paths):
        read = read_tools(path, strict=False, keep_ids=True)
        for tool in read.tools:
            tools.append(tool)
            sources[tool.id].append(path.name)
        for rejection in read.rejected:
            name = f"tool {rejection.name!r}: " if rejection.name else ""
            reason = f"{name}{rejection.field}: {rejection.reason}"
            malformed.append(RowProblem(path.name, _row(rejection.where), reason))
    catalog = Catalog(tools)
    for collision in catalog.collisions:
        fate = "is the same" if collision.identical else f"is held as {collision.kept_as!r}"
        reason = f"id: {collision.id!r} was an earlier tool's; this one {fate}"
        source = sources[collision.id].pop(1)
        malformed.append(RowProblem(source, None, reason, left_out=False))
    return catalog, tuple(malformed)


def _row(where: str) -> int | None:
    """The row a place names, counted from 1."""
    places = _PLACE.findall(where)
    if not places:
        return None
    line, index = places[0]
    return int(line) if line else int(index) + 1
