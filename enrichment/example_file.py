"""One row of enrichment, and files of them."""

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

from ..catalog.text_cleaning import Notes, clean_line
from ..catalog.text_file import read_text_file
from ..errors import ConfigError
from ..settings import joined

#: Requests of one row that are kept, and characters of each and of `when`.
MOST_REQUESTS, MOST_CHARS = 16, 400


def _line(text: str) -> str:
    return clean_line(text, "text", Notes(), MOST_CHARS)


Line = Annotated[str, AfterValidator(_line)]


class Enrichment(BaseModel):
    """The example queries of one tool.

    Args:
        tool: id of the tool.
        fingerprint: fingerprint of the definition it was written for; None for any definition of
            that id.
        parameters: names of the parameters of that definition. They decide whether a definition
            that changed keeps its enrichment.
        when: one sentence on when to use the tool.
        not: what the tool is not for; kept for readers of the file, and not searched.
        summary: what the tool does, in one imperative line. Prompts show it in place of the
            description's first sentence, for this definition only; so it passes the scan.
        requests: example queries, at most 16 of at most 400 characters; further ones are dropped.
        source: origin of the row.

    Raises:
        ValidationError: a key is missing, unknown or of the wrong type; or nothing is
            searched; or the scan would quarantine a definition that says what the summary says.

    Example:
        >>> Enrichment(tool="billing/list_invoices", requests=("who owes us money?",)).source
        'hand'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    tool: str = Field(min_length=1)
    fingerprint: str | None = None
    parameters: tuple[str, ...] | None = None
    when: Line = ""
    not_: Line = Field(default="", alias="not")
    summary: Line = ""
    requests: tuple[Line, ...] = ()
    source: Literal["library", "model", "usage", "hand"] = "hand"

    @field_validator("summary")
    @classmethod
    def _passes_the_scan(cls, summary: str) -> str:
        if summary and is_hostile(summary):
            raise ValueError("it reads like a hidden instruction; say what the tool does")
        return summary

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        requests = tuple(dict.fromkeys(one for one in self.requests if one))[:MOST_REQUESTS]
        if not requests and not self.when:
            raise ValueError("requests: at least one, or `when`")
        object.__setattr__(self, "requests", requests)
        return self

    @property
    def text(self) -> str:
        """All sentences and example queries, a line each."""
        return "\n".join((self.when, self.not_, self.summary, *self.requests))

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without what is empty.

        Example:
            >>> Enrichment(tool="a/b", when="To add numbers.").to_dict()
            {'tool': 'a/b', 'when': 'To add numbers.', 'source': 'hand'}
        """
        held = self.model_dump(by_alias=True, mode="json")
        return {name: value for name, value in held.items() if value not in (None, "", [])}


def is_hostile(text: str) -> bool:
    """Whether the scan would quarantine a definition that says this."""
    from ..catalog import Catalog, Tool
    from ..trust import Trust, quarantined

    return bool(quarantined(Trust().flags(Catalog([Tool("enrichment", None, text)]))))


def read_enrichments(paths: Iterable[str | Path]) -> tuple[Enrichment, ...]:
    """The enrichments of JSON lines files.

    Args:
        paths: the files.

    Raises:
        ConfigError: a file cannot be read, or a row is no enrichment; names file and row.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "enriched.jsonl"
        >>> _ = path.write_text('{"tool": "billing/list_invoices", "requests": ["who owes us?"]}')
        >>> [row.tool for row in read_enrichments([path])]
        ['billing/list_invoices']
    """
    rows: list[Enrichment] = []
    for path in paths:
        # Not `splitlines`: a text may hold a line separator of Unicode.
        lines = read_text_file(path, error=ConfigError).split("\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    rows.append(Enrichment.model_validate(json.loads(line)))
                except ValidationError as error:
                    raise ConfigError(f"{path}, row {number}: {joined(error)}") from None
                except (ValueError, RecursionError) as error:
                    raise ConfigError(f"{path}, row {number}: no JSON: {error}") from None
    return tuple(rows)
