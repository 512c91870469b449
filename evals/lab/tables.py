"""README tables, generated from recorded results between their markers.

<!-- table:NAME -->          one record
<!-- table:NAME,OTHER -->    several with the same headings, told apart by a first column
...generated...
<!-- /table -->
"""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import EvaluationError
from ..table import Cell, Table
from .record import RESULTS, Record, read_record

_MARKED = re.compile(
    r"(?P<open><!-- table:(?P<names>[^\s>]+) -->\n)(?P<body>.*?)(?P<close><!-- /table -->)",
    re.DOTALL,
)


def fill_tables(text: str, folder: Path = RESULTS) -> str:
    """The text with every marked table written anew from its records.

    Args:
        text: of a Markdown page.
        folder: where the records are.

    Raises:
        EvaluationError: a marker has no end, or names a record that is not there or does not fit.
    """
    opened = len(re.findall(r"<!-- table:", text))
    pieces = list(_MARKED.finditer(text))
    if len(pieces) != opened or any("<!-- table:" in piece["body"] for piece in pieces):
        raise EvaluationError("a '<!-- table:NAME -->' marker has no '<!-- /table -->' of its own")

    def fill(piece: re.Match[str]) -> str:
        records = [read_record(name, folder) for name in piece["names"].split(",")]
        return f"{piece['open']}{markdown(join(records))}{_source(records)}{piece['close']}"

    return _MARKED.sub(fill, text)


def join(records: list[Record]) -> Table:
    """One table of several records, with a first column of their titles; of one, its own.

    Raises:
        EvaluationError: their headings differ.
    """
    first = records[0]
    if len(records) == 1:
        return first.table
    for record in records[1:]:
        if record.table.columns != first.table.columns:
            raise EvaluationError(
                f"records {first.name!r} and {record.name!r} have different headings: "
                "show them in two tables"
            )
    rows = [(record.title, *row) for record in records for row in record.table.rows]
    return Table(("set", *first.table.columns), tuple(rows))


def markdown(table: Table) -> str:
    """A table in Markdown, one line a row."""
    rule = ["---"] + ["---:"] * (len(table.columns) - 1)
    lines = [table.columns, tuple(rule), *table.rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(cell: Cell) -> str:
    if cell is None:
        return "–"
    return str(cell).replace("|", "\\|").replace("\n", " ")


def _source(records: list[Record]) -> str:
    """Where the figures come from, in one line below them."""
    commits = dict.fromkeys(str(record.origin.get("commit") or "no commit") for record in records)
    machines = dict.fromkeys(
        f"{machine['processor']}, {machine['cores']} cores"
        for record in records
        if (machine := record.origin.get("machine"))
    )
    runs = dict.fromkeys(f"{record.title}: `{record.origin['command']}`" for record in records)
    return f"\n{'; '.join(runs)}; at {', '.join(commits)} on {'; '.join(machines)}.\n"
