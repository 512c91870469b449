"""read_tools: reads tools from files, folders and values of any known format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import CatalogError, ToolError
from .readers import READERS, Document, Reader
from .source import Source, load
from .tool import Tool


@dataclass(frozen=True, slots=True)
class Rejected:
    """A definition that could not be read, with the reason.

    Attributes:
        where: file, line or index.
        field: the bad field.
        reason: what is wrong with it.
        name: name of the tool, if known.
    """

    where: str
    field: str
    reason: str
    name: str | None = None

    def __str__(self) -> str:
        name = f"{self.name!r} " if self.name else ""
        return f"{self.where}: {name}{self.field}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The tools of a source, and the definitions that could not be read.

    Attributes:
        tools: the good definitions, in order.
        rejected: the bad ones; empty when reading strictly.
        format: the format read, several joined by "+".
        notes: parts that were left out of good definitions, one sentence each, with the file.
    """

    tools: tuple[Tool, ...]
    rejected: tuple[Rejected, ...]
    format: str
    notes: tuple[str, ...] = ()


def read_tools(
    source: Source,
    *,
    format: str = "auto",  # noqa: A002 - the word users know
    server: str | None = None,
    strict: bool = True,
    keep_ids: bool = False,
) -> ReadResult:
    """The tools of a file, a folder, a list of files, or a parsed value, with errors.

    Args:
        source: a path to .json, .jsonl, .yaml or .yml, a folder or a list of such files, a dict or
            a list of definitions, objects of the MCP SDK (`ListToolsResult`, `Tool`), or an open
            text file such as `sys.stdin` with JSON, JSON lines or YAML. A
            folder is read in order of the files' names.
        format: "auto", or one of "jsonl", "mcp", "openai", "anthropic", "openapi", "xlam".
        server: name of the server of the tools. None takes the name from the source. If a file
            names a server that is the name of another file, its tools belong to the server of its
            own file name.
        strict: whether a bad definition raises. If False, bad definitions are returned in
            `rejected`.
        keep_ids: whether rows keep their own `id`. Use it only for files that you or shortlist
            wrote, because rules and approvals depend on ids. If False, or if `server` is given, the
            id is `server/name`.

    Raises:
        CatalogError: the source cannot be read, its format is unknown, or `format` does not exist.
            If `strict` is False, a bad file among several is returned in `rejected`.
        ToolError: `strict` is True and a definition is bad; names file, line or index, field and
            reason.
    """
    tools: list[Tool] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    formats: dict[str, None] = {}
    for document in load(source):
        document.server, document.keep_ids = server, keep_ids
        try:
            reader = _reader(format, document)
            formats[reader.name] = None
            for outcome in _outcomes(reader, document):
                if isinstance(outcome, Tool):
                    tools.append(outcome)
                elif strict:
                    raise outcome
                else:
                    where = outcome.where or "source"
                    rejected.append(Rejected(where, outcome.field, outcome.reason, outcome.tool))
        except CatalogError as error:
            if strict or not document.one_of_many:
                raise
            reason = str(error).removeprefix(document.prefix)
            rejected.append(Rejected(document.label, "file", reason))
        notes += [f"{document.prefix}{note}" for note in document.notes]
    return ReadResult(tuple(tools), tuple(rejected), "+".join(formats), tuple(notes))


def _reader(name: str, document: Document) -> Reader:
    if document.problem is not None:
        raise document.problem
    known = {reader.name: reader for reader in READERS}
    if isinstance(name, str) and name in known:
        return known[name]
    if name != "auto":
        raise CatalogError(f"unknown format {name!r:.80}: use auto, {', '.join(known)}")
    for reader in READERS:
        if reader.recognises(document.value):
            return reader
    value, place = document.value, document.prefix
    if isinstance(value, dict) and isinstance(value.get("mcpServers"), dict):
        raise CatalogError(
            f"{place}an MCP client's configuration names servers, not tools; to start them and "
            "list their tools: shortlist.gateway.configured_tools.read_configured_tools(path)"
        )
    raise CatalogError(f"{place}not a known form of tools: give format= one of {', '.join(known)}")


def _outcomes(reader: Reader, document: Document) -> Iterator[Tool | ToolError]:
    """Each definition as a tool or as the error that names its place."""
    prefix = document.prefix
    for number, reason in document.bad_lines:
        yield ToolError(field="line", reason=reason, where=f"{prefix}line {number}")
    try:
        for entry in reader.entries(document):
            try:
                yield reader.tool(entry)
            except ToolError as error:
                yield ToolError(
                    field=error.field,
                    reason=error.reason,
                    tool=error.tool,
                    where=f"{prefix}{entry.where}",
                )
    except CatalogError as error:
        raise CatalogError(f"{prefix}{error}") from None
