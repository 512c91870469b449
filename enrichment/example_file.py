"""A row of example queries, and files of such rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ..catalog.text_cleaning import visible_line
from ..catalog.text_file import locked, read_text_file, replace_text_file
from ..errors import ConfigError
from ..settings import validation_text

#: Example queries of one row that are kept, and characters of each and of `when`.
MAX_QUERIES, MAX_CHARS = 16, 400

#: Key of the example queries in a row of a file.
QUERIES_KEY = "requests"


def _line(text: str) -> str:
    return visible_line(text, MAX_CHARS)


Line = Annotated[str, AfterValidator(_line)]


class ExampleQueryRow(BaseModel):
    """The example queries of one tool, as a file has them.

    Args:
        tool: id of the tool.
        fingerprint: fingerprint of the definition it was written for; None for any definition of
            that id.
        parameters: names of the parameters of that definition. They decide whether a definition
            that changed keeps its example queries.
        when: one sentence on when to use the tool.
        not: what the tool is not for; kept for readers of the file, and not searched.
        summary: what the tool does, in one imperative line. Prompts show it in place of the
            description's first sentence, for this definition only; so it passes the scan.
        queries: example queries, at most 16 of at most 400 characters; further ones are dropped.
            Files have them under the key `requests`.
        profile: the gateway's profile whose queries these are; kept for readers of the file, and
            not searched.
        source: origin of the row.

    Raises:
        ValidationError: a key is missing, unknown or of the wrong type; or nothing is
            searched; or the scan would quarantine a definition that says what the summary says.

    Example:
        >>> ExampleQueryRow(tool="billing/list_invoices", queries=("who owes us money?",)).source
        'hand'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    tool: str = Field(min_length=1)
    fingerprint: str | None = None
    parameters: tuple[str, ...] | None = None
    when: Line = ""
    not_: Line = Field(default="", alias="not")
    summary: Line = ""
    queries: tuple[Line, ...] = Field(
        default=(), validation_alias=QUERIES_KEY, serialization_alias=QUERIES_KEY
    )
    profile: Line = ""
    source: Literal["library", "model", "usage", "hand"] = "hand"

    @field_validator("summary")
    @classmethod
    def _passes_the_scan(cls, summary: str) -> str:
        if summary and is_hostile(summary):
            raise ValueError("it reads like a hidden instruction; say what the tool does")
        return summary

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        queries = tuple(dict.fromkeys(query for query in self.queries if query))[:MAX_QUERIES]
        if not queries and not self.when:
            raise ValueError(f"{QUERIES_KEY}: at least one, or `when`")
        object.__setattr__(self, "queries", queries)
        return self

    @property
    def text(self) -> str:
        """All sentences and example queries, a line each."""
        return "\n".join((self.when, self.not_, self.summary, *self.queries))

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without what is empty.

        Example:
            >>> ExampleQueryRow(tool="a/b", when="To add numbers.").to_dict()
            {'tool': 'a/b', 'when': 'To add numbers.', 'source': 'hand'}
        """
        values = self.model_dump(by_alias=True, mode="json")
        return {name: value for name, value in values.items() if value not in (None, "", [])}

    def to_line(self) -> str:
        """The row as a line of a file."""
        return f"{json.dumps(self.to_dict(), ensure_ascii=False)}\n"


def is_hostile(text: str) -> bool:
    """Whether the scan would quarantine a definition that says this."""
    from ..catalog import Catalog, Tool
    from ..trust import Trust, quarantined

    # Each line is a text of its own, and the scan reads a line break inside one as a blank.
    description = text.replace("\n", "\n\n")
    tool = Tool("example_queries", None, description)
    return bool(quarantined(Trust().flags(Catalog([tool]))))


_ROW_KEYS = tuple(
    QUERIES_KEY if name == "queries" else field.alias or name
    for name, field in ExampleQueryRow.model_fields.items()
)
"""Keys of a row in a file."""


def read_example_queries(paths: Iterable[str | Path]) -> tuple[ExampleQueryRow, ...]:
    """The rows of JSON lines files.

    Args:
        paths: the files.

    Raises:
        ConfigError: a file cannot be read, or a row is not valid; names file and row.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "enriched.jsonl"
        >>> _ = path.write_text('{"tool": "billing/list_invoices", "requests": ["who owes us?"]}')
        >>> [row.tool for row in read_example_queries([path])]
        ['billing/list_invoices']
    """
    rows: list[ExampleQueryRow] = []
    for path in paths:
        # Not `splitlines`: a text may hold a line separator of Unicode.
        lines = read_text_file(path, error=ConfigError).split("\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    row = json.loads(line)
                    if isinstance(row, dict) and "queries" in row:
                        raise ConfigError(
                            f"{path}, row {number}: no key 'queries'; write '{QUERIES_KEY}'"
                        )
                    rows.append(ExampleQueryRow.model_validate(row))
                except ValidationError as error:
                    problems = validation_text(error, _ROW_KEYS)
                    raise ConfigError(f"{path}, row {number}: {problems}") from None
                except (ValueError, RecursionError) as error:
                    raise ConfigError(f"{path}, row {number}: no JSON: {error}") from None
    return tuple(rows)


def add_example_query(path: str | Path, tool_id: str, query: str) -> ExampleQueryRow:
    """Add an example query of a tool to a file; returns the row that has it now.

    It goes to the tool's first row that was written by hand for any definition. Without one, a row
    is added at the end of the file.

    Args:
        path: the file; created if it does not exist.
        tool_id: id of the tool.
        query: the example query.

    Raises:
        ConfigError: the file cannot be read or written, the query is empty, or the row is full.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "examples.jsonl"
        >>> add_example_query(path, "billing/list_invoices", "who owes us money?").queries
        ('who owes us money?',)
    """
    path, query = Path(path), _line(query)
    if not query:
        raise ConfigError(f"an example query for {tool_id}: it is empty; write what a user asks")
    with locked(path, error=ConfigError):
        rows = list(read_example_queries([path])) if path.exists() else []
        place = next((n for n, row in enumerate(rows) if _is_by_hand(row, tool_id)), None)
        if place is None:
            place = len(rows)
            rows.append(ExampleQueryRow(tool=tool_id, queries=(query,)))
        elif query not in rows[place].queries:
            queries = (*rows[place].queries, query)
            if len(queries) > MAX_QUERIES:
                raise ConfigError(
                    f"{path}: {tool_id} has {MAX_QUERIES} example queries, more are not searched; "
                    "remove some"
                )
            rows[place] = rows[place].model_copy(update={"queries": queries})
        replace_text_file(path, (row.to_line() for row in rows))
        return rows[place]


def _is_by_hand(row: ExampleQueryRow, tool_id: str) -> bool:
    return row.tool == tool_id and row.source == "hand" and row.fingerprint is None
