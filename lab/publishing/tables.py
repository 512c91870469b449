"""README tables, generated from recorded results between their markers.

<!-- table:NAME -->          one record
<!-- table:NAME,OTHER -->    several with the same headings, told apart by a first column
<!-- table:NAME columns="method|hit@1" set="xlam" -->    some columns, rows with these values
...generated...
<!-- /table -->
"""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import EvaluationError
from ...evals.report import Cell, Table
from .record import RESULTS, Record, read_record

_MARKED = re.compile(
    r"(?P<open><!-- table:(?P<names>[^\s>]+)(?P<picked>[^>\n]*?) -->\n)(?P<body>.*?)"
    r"(?P<close><!-- /table -->)",
    re.DOTALL,
)
_PICKED = re.compile(r'\s*(\S[^="]*)="([^"]*)"')


def fill_tables(text: str, folder: Path = RESULTS) -> str:
    """The text with every marked table written anew from its records.

    Args:
        text: of a Markdown page.
        folder: where the records are.

    Raises:
        EvaluationError: a marker has no end, or names a record, a column or a value that is not
            there, or records that do not fit.
    """
    opened = len(re.findall(r"<!-- table:", text))
    pieces = list(_MARKED.finditer(text))
    if len(pieces) != opened or any("<!-- table:" in piece["body"] for piece in pieces):
        raise EvaluationError("a '<!-- table:NAME -->' marker has no '<!-- /table -->' of its own")

    def fill(piece: re.Match[str]) -> str:
        records = [read_record(name, folder) for name in piece["names"].split(",")]
        table, source = join(records), _source(records)
        if picked := dict(_PICKED.findall(piece["picked"])):
            table, source = _pick(table, picked), _files(records)
        return f"{piece['open']}{markdown(table)}{source}{piece['close']}"

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


def _pick(table: Table, picked: dict[str, str]) -> Table:
    """The columns named under `columns`, and the rows whose cells have the values named else."""
    columns = picked.get("columns", "|".join(table.columns)).split("|")
    wanted = {name: values.split("|") for name, values in picked.items() if name != "columns"}
    for name in (*columns, *wanted):
        if name not in table.columns:
            raise EvaluationError(f"no column {name!r}; use one of: {', '.join(table.columns)}")
    rows = table.rows
    for name, values in wanted.items():
        at = table.columns.index(name)
        if missing := set(values) - {str(row[at]) for row in rows}:
            raise EvaluationError(f"column {name!r} has no value {min(missing)!r}")
        rows = tuple(row for row in rows if str(row[at]) in values)
    places = [table.columns.index(name) for name in columns]
    return Table(tuple(columns), tuple(tuple(row[at] for at in places) for row in rows))


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
    """The commands that the figures come from, in one line below them."""
    runs = dict.fromkeys(f"{record.title}: `{record.origin['command']}`" for record in records)
    return f"\n{'; '.join(runs)}; {_where(records)}.\n"


def _files(records: list[Record]) -> str:
    """The files that the figures come from, which hold the commands."""
    files = ", ".join(f"`lab/results/{record.name}.json`" for record in records)
    return f"\nFrom {files}; {_where(records)}.\n"


def _where(records: list[Record]) -> str:
    """Commits and machines."""
    commits = dict.fromkeys(str(record.origin.get("commit") or "no commit") for record in records)
    machines = dict.fromkeys(
        f"{machine['processor']}, {machine['cores']} cores"
        for record in records
        if (machine := record.origin.get("machine"))
    )
    return f"at {', '.join(commits)} on {'; '.join(machines)}"
