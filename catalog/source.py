"""Sources: files, folders and values that tools are read from, turned into JSON documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import CatalogError
from .readers import Document
from .yaml_text import parse_yaml

Source: TypeAlias = str | Path | dict[str, Any] | list[Any]

FILE_BYTES = 1 << 28
"""Bytes of one file, 256 MiB: a catalog of 50,000 tools takes some 50 MB."""
SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")
"""The files of a folder that are read."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One document of a source.

    Attributes:
        label: the file it came from, or "" for a value given in memory.
        document: its parsed content.
        bad_lines: line number and reason for each line of a file of lines that is not JSON.
    """

    label: str
    document: Document
    bad_lines: tuple[tuple[int, str], ...] = ()


def load(source: Source, server: str | None, *, keep_ids: bool = False) -> Iterator[Loaded]:
    """The documents of a source: one for a value or a file, one per file of a folder or a list.

    In a folder or a list, the name of a file stands in for a server that nothing else names.

    Raises:
        CatalogError: a path that cannot be read, or a file that is not JSON or YAML.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if _is_folder(path):
            yield from _load_all(_files(path), server, keep_ids)
        else:
            yield _load_file(path, server, None, keep_ids)
    elif isinstance(source, list) and source and all(isinstance(s, str | Path) for s in source):
        yield from _load_all([Path(s) for s in source], server, keep_ids)
    elif isinstance(source, dict | list):
        yield Loaded("", Document(source, server, keep_ids=keep_ids))
    else:
        kind = type(source).__name__
        raise CatalogError(f"tools are read from a path, a list or a dict, got {kind}")


def _load_all(paths: list[Path], server: str | None, keep_ids: bool) -> Iterator[Loaded]:
    for path in paths:
        yield _load_file(path, server, path.stem, keep_ids)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long, or holds a null byte: reading it says so
        return False


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not files:
        raise CatalogError(f"{folder}: no file ending in {', '.join(SUFFIXES)}")
    return files


def _load_file(path: Path, server: str | None, fallback: str | None, keep_ids: bool) -> Loaded:
    label = str(path)
    text = _read(path)
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        values, lines, bad = _parse_lines(text)
        return Loaded(label, Document(values, server, fallback, lines, keep_ids), bad)
    try:
        value = parse_yaml(text) if suffix in (".yaml", ".yml") else parse_json(text)
    except ValueError as error:
        raise CatalogError(f"{label}: {error}") from None
    return Loaded(label, Document(value, server, fallback, keep_ids=keep_ids))


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > FILE_BYTES:
            raise CatalogError(f"{path}: has {size:,} bytes, more than {FILE_BYTES:,}; split it")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CatalogError(
            f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from None
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path}: cannot be read: {error}") from None


def parse_json(text: str) -> Any:
    """A JSON value.

    Raises:
        ValueError: not JSON, nested too deep, or with a number too long to read; says where.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"line {error.lineno}, column {error.colno}: is not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise ValueError("is nested too deep to be read as JSON") from None


def _parse_lines(text: str) -> tuple[list[Any], tuple[int, ...], tuple[tuple[int, str], ...]]:
    values: list[Any] = []
    lines: list[int] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values.append(json.loads(line))
        except json.JSONDecodeError as error:
            bad.append((number, f"is not JSON: {error.msg} at column {error.colno}"))
        except RecursionError:
            bad.append((number, "is nested too deep to be read as JSON"))
        except ValueError as error:
            bad.append((number, f"cannot be read: {error}"))
        else:
            lines.append(number)
    return values, tuple(lines), tuple(bad)
