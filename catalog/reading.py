"""read_tools: reads tools from files, folders and values of any known format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeAlias, runtime_checkable

from ..errors import CatalogError, ToolError
from ..untrusted.json_bytes import read_json
from .mcp_listing import PydanticModel, is_pydantic_model, plain_json
from .readers import READERS, Document, Reader
from .readers.reader import folded_server_name
from .readers.skill_folder import SKILL_FILE, skill_documents
from .readers.yaml_text import bounded_integer, parse_yaml
from .text_file import MAX_FILE_BYTES, read_text_file
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
            text file such as `sys.stdin` with JSON, JSON lines or YAML. A folder is read in order
            of the files' names; its folders with a `SKILL.md` are skills.
        format: "auto", or one of "jsonl", "mcp", "openai", "anthropic", "openapi", "skills".
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
    for document in load_documents(source):
        document.server, document.keep_ids = server, keep_ids
        try:
            reader = _choose_reader(format, document)
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


def read_definition(
    definition: Mapping[str, Any], *, server: str | None = None, place: str = ""
) -> list[Tool]:
    """The tools of one definition or listing in memory, of any known format.

    Args:
        definition: as JSON.
        server: the server of the tools; None takes the name from the definition.
        place: position of the definition, for errors.

    Raises:
        CatalogError: its format is unknown.
        ToolError: it is bad; names the place, field and reason.
    """
    tools = []
    for value in ([definition], definition):
        document = Document(value, server=server)
        reader = next((reader for reader in READERS if reader.recognises(value)), None)
        if reader is None:
            continue
        for entry in reader.entries(document):
            try:
                tools.append(reader.tool(entry))
            except ToolError as error:
                where = place + (entry.where.removeprefix("[0]") if value is not definition else "")
                raise ToolError(
                    field=error.field, reason=error.reason, tool=error.tool, where=where or None
                ) from None
        return tools
    where = f"tools{place}" if place[:1] in ("", "[") else place
    keys = ", ".join(str(key)[:40] for key in list(definition)[:8])
    if isinstance(definition.get("mcpServers"), dict):
        _refuse_client_configuration("")
    raise CatalogError(
        f"{where}: no known form of a tool: an object with the keys {keys or 'none'}; with "
        "Catalog.read(..., format=...) you name its format"
    )


def _refuse_client_configuration(place: str) -> NoReturn:
    raise CatalogError(
        f"{place}an MCP client's configuration names servers, not tools; to start them and "
        "list their tools: read_configured_tools(path) of "
        "shortlist.gateway.observe.server_inspection"
    )


def _choose_reader(name: str, document: Document) -> Reader:
    if document.problem is not None:
        raise document.problem
    readers = {reader.name: reader for reader in READERS}
    if isinstance(name, str) and name in readers:
        return readers[name]
    if name != "auto":
        raise CatalogError(f"unknown format {name!r:.80}: use auto, {', '.join(readers)}")
    for reader in READERS:
        if reader.recognises(document.value):
            return reader
    value, place = document.value, document.prefix
    if isinstance(value, dict) and isinstance(value.get("mcpServers"), dict):
        _refuse_client_configuration(place)
    raise CatalogError(
        f"{place}not a known form of tools: give format= one of {', '.join(readers)}"
    )


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


@runtime_checkable
class TextFile(Protocol):
    """An open text file such as `sys.stdin`."""

    def read(self, size: int = -1, /) -> str:
        """At most so many characters."""
        ...


Source: TypeAlias = str | Path | TextFile | Mapping[str, Any] | Sequence[Any] | PydanticModel
"""A path, several paths, an open text file, parsed JSON, or an object of the MCP SDK such as
`ListToolsResult`."""

SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")
"""Endings of the files in a folder that are read."""


def load_documents(source: Source) -> Iterator[Document]:
    """The documents of a source: one for a value or a file, one per file of a folder or a list.

    In a folder or a list, the file name is the server if nothing else names one. If a file names a
    server that is the name of another file, its tools belong to the server of its own file name.

    Raises:
        CatalogError: a path that cannot be read, or a single file that is not JSON or YAML. A bad
            file of several has a `problem` instead.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if _is_folder(path):
            skills = list(skill_documents(path))
            yield from skills
            yield from _load_all(_files(path, may_be_empty=bool(skills)))
        else:
            yield _load_file(path)
    elif (
        isinstance(source, list | tuple)
        and source
        and all(isinstance(s, str | Path) for s in source)
    ):
        yield from _load_all([Path(s) for s in source])
    elif isinstance(source, TextFile):
        yield _load_text(source)
    elif isinstance(source, Mapping | list | tuple) or is_pydantic_model(source):
        yield Document(plain_json(source))
    else:
        kind = type(source).__name__
        raise CatalogError(f"tools are read from a path, a list or a dict, got {kind}")


def _load_all(paths: list[Path]) -> Iterator[Document]:
    file_names = frozenset(folded_server_name(path.stem) for path in paths)
    for path in paths:
        try:
            document = _load_file(path)
        except CatalogError as error:
            document = Document([], str(path), problem=error)
        document.fallback, document.file_names, document.one_of_many = path.stem, file_names, True
        yield document


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long, or holds a null byte: reading it says so
        return False


def _files(folder: Path, *, may_be_empty: bool) -> list[Path]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise CatalogError(f"{folder}: cannot be read: {error.strerror}") from error
    if not files and not may_be_empty:
        endings = ", ".join(SUFFIXES)
        raise CatalogError(f"{folder}: no file ending in {endings}, and no skills (*/{SKILL_FILE})")
    return files


def _load_file(path: Path) -> Document:
    label = str(path)
    text = read_text_file(path, MAX_FILE_BYTES)
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        values, lines, bad = _parse_lines(text)
        return Document(values, label, lines=lines, bad_lines=bad)
    try:
        value = parse_yaml(text) if suffix in (".yaml", ".yml") else parse_json(text)
    except ValueError as error:
        raise CatalogError(f"{label}: {error}") from None
    return Document(value, label)


def _load_text(file: TextFile) -> Document:
    """The document of an open file, whose format is not known from its name."""
    label = str(getattr(file, "name", "file"))
    try:
        text = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise CatalogError(f"{label}: cannot be read: {error}") from error
    if len(text) > MAX_FILE_BYTES:
        raise CatalogError(f"{label}: has more than {MAX_FILE_BYTES:,} characters; split it")
    if not text.strip():
        raise CatalogError(f"{label}: is empty; give tools as JSON, JSON lines or YAML")
    is_json = text.lstrip()[0] in "[{"
    try:
        value = parse_json(text) if is_json else parse_yaml(text)
    except ValueError as error:
        values, lines, bad = _parse_lines(text)
        if not is_json or not values:
            raise CatalogError(f"{label}: {error}") from None
        return Document(values, label, lines=lines, bad_lines=bad)
    # A single line is a row, which names its server, as in a file of several.
    is_row = isinstance(value, dict) and "name" in value
    return Document([value] if is_row else value, label)


def parse_json(text: str) -> Any:
    """A JSON value.

    Raises:
        ValueError: not JSON, or nested too deep; says where.
    """
    try:
        return read_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"line {error.lineno}, column {error.colno}: is not JSON: {error.msg}"
        ) from None
    except ValueError:
        # An integer too long for Python: only the definition that holds it is bad.
        return read_json(text, parse_int=bounded_integer)


def _parse_lines(text: str) -> tuple[list[Any], tuple[int, ...], tuple[tuple[int, str], ...]]:
    values: list[Any] = []
    lines: list[int] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values.append(parse_json(line))
        except ValueError as error:
            bad.append((number, str(error).removeprefix("line 1, ")))
        else:
            lines.append(number)
    return values, tuple(lines), tuple(bad)
