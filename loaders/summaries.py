"""Summaries: one line per tool, from files or made offline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..catalog import Tool
from ..catalog.fingerprint import canonical_json, digest
from ..catalog.text_file import read_text_file
from ..errors import SummaryError
from .summary import bounded, summarize

_KEPT = 16_384
"""Maximum number of cached offline summaries, about 80 characters each."""


class SummaryRow(NamedTuple):
    """One line of a file of summaries.

    Attributes:
        id: id of the tool.
        fingerprint: fingerprint of the summarized definition; None for a summary by hand that is
            valid for every definition with this id.
        summary: the line.
        source: `offline`, `model` or `hand`.
    """

    id: str
    fingerprint: str | None
    summary: str
    source: str

    def to_json(self) -> str:
        """The row as a line of JSON."""
        return json.dumps(self._asdict(), ensure_ascii=False)


class Summaries:
    """One-line summaries of tools: from files, or else made offline.

    A row with a fingerprint is used only for that definition. A changed definition gets an offline
    summary until it is summarized again. A row without a fingerprint is used for its id, before all
    others. Every summary is cleaned and cut.

    Args:
        rows: later ones replace earlier ones.
    """

    def __init__(self, rows: Iterable[SummaryRow] = ()) -> None:
        self._by_fingerprint: dict[str, str] = {}
        self._by_id: dict[str, str] = {}
        self._offline = lru_cache(_KEPT)(summarize)
        for row in rows:
            if line := bounded(row.summary):
                if row.fingerprint is None:
                    self._by_id[row.id] = line
                else:
                    self._by_fingerprint[row.fingerprint] = line

    @classmethod
    def read(cls, *paths: Path | str) -> Summaries:
        """Summaries from one or several files. Later files replace earlier ones.

        Raises:
            SummaryError: a file cannot be read or is not a file of summaries.
        """
        return cls(row for path in paths for row in read_rows(path))

    def of(self, tool: Tool) -> str:
        """The summary of a tool, one line of at most 60 tokens."""
        written = self._by_id.get(tool.id) or self._by_fingerprint.get(tool.fingerprint)
        return written or self._offline(tool)

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over all summaries from files."""
        return digest(canonical_json(part).encode() for part in (self._by_fingerprint, self._by_id))

    def __len__(self) -> int:
        return len(self._by_fingerprint) + len(self._by_id)


def read_rows(path: Path | str) -> Iterator[SummaryRow]:
    """The rows of a JSONL file, or of a JSON object of id to summary.

    A last line that was cut off by an interruption is left out.

    Raises:
        SummaryError: the file cannot be read, or a row is not one; names the line.
    """
    text = read_text_file(path, error=SummaryError)
    whole = _parsed(text)
    if isinstance(whole, dict) and "summary" not in whole:
        for tool_id, summary in whole.items():
            yield _row({"id": tool_id, "summary": summary}, f"{path}: {tool_id!r:.80}")
        return
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _parsed(line)
        if row is None and number == len(lines) and not text.endswith("\n"):
            return
        yield _row(row, f"{path}:{number}")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _row(row: Any, where: str) -> SummaryRow:
    match row:
        case {"id": str(tool_id), "summary": str(summary)}:
            fingerprint = row.get("fingerprint")
            if isinstance(fingerprint, str | None):
                return SummaryRow(tool_id, fingerprint, summary, str(row.get("source") or "hand"))
    raise SummaryError(
        f'{where}: must be an object like {{"id": ..., "summary": ...}}, both text; a fingerprint '
        "is text too, or absent"
    )
