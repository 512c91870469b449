"""Rows of Salesforce/xlam-function-calling-60k in its published form.

A row is `{"id", "query", "answers", "tools"}`, the last two JSON in strings. Files come as one JSON
array (as published), as JSON lines, or as parquet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from ..catalog.text_file import open_file
from ..errors import EvaluationError, MissingExtraError
from .dataset import RowError, RowProblem, parse_object

REPOSITORY = "Salesforce/xlam-function-calling-60k"
_FILE = "xlam_function_calling_60k.json"


@dataclass(frozen=True, slots=True)
class XlamRow:
    """One usable row.

    Args:
        number: where it is in the file, counted from 1.
        query: the request.
        answers: names of the functions called for it, without repeats.
        functions: the definitions offered, as published.
    """

    number: int
    query: str
    answers: tuple[str, ...]
    functions: tuple[Mapping[str, Any], ...]


def stream_rows(path: str | Path) -> Iterator[XlamRow | RowProblem]:
    """Rows of a file in order, a `RowProblem` in place of each that cannot be used.

    A row cannot be used when it is not JSON or lacks a field, repeats an earlier row's id, calls no
    function, or calls one it does not offer.

    Args:
        path: JSON array, JSON lines or parquet; told apart by content.

    Raises:
        EvaluationError: the file cannot be read, is empty, or is an array that is not JSON.
        MissingExtraError: it is parquet and pyarrow is not installed.
    """
    file = Path(path)
    ids: set[str | int] = set()
    try:
        for number, raw_row in enumerate(_raw_rows(file), start=1):
            try:
                yield _usable(number, raw_row, ids)
            except RowError as error:
                yield RowProblem(file.name, number, str(error))
    except OSError as error:
        raise EvaluationError(f"{file}: cannot be read: {error.strerror or error}") from error


def download(token: str | None) -> Path:
    """Fetch the published file from its hub into the hub's cache and return its path.

    Args:
        token: token of an account that has accepted the data set's terms; None uses the one that
            the hub's own login stored.

    Raises:
        MissingExtraError: huggingface-hub is not installed.
        EvaluationError: the hub refuses or cannot be reached; says what to do.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
    except ImportError as error:
        raise MissingExtraError("fetching xlam from the hub", "hub") from error
    try:
        return Path(hf_hub_download(REPOSITORY, _FILE, repo_type="dataset", token=token))
    except (GatedRepoError, RepositoryNotFoundError) as error:
        raise EvaluationError(
            f"{REPOSITORY}: no access: accept its terms on its hub page and use a token of that "
            "account, or pass a copy of the file with --data"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EvaluationError(
            f"{REPOSITORY}: cannot be fetched ({reason}); pass a copy of the file with --data"
        ) from error


def _raw_rows(file: Path) -> Iterator[Any]:
    with open_file(file, None, error=EvaluationError) as content:
        start = content.read(4096)
        content.seek(0)
        if not start.strip():
            raise EvaluationError(f"{file}: empty: expected rows of {REPOSITORY}")
        if start.startswith(b"PAR1"):
            yield from _parquet_rows(file)
        elif start.lstrip().startswith(b"["):
            yield from _array_rows(file, content)
        else:
            yield from (line for line in content if line.strip())


def _parquet_rows(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError("reading parquet", "xlam") from error
    try:
        with parquet.ParquetFile(file) as content:
            for batch in content.iter_batches(batch_size=512):
                yield from batch.to_pylist()
    except arrow.ArrowException as error:
        raise EvaluationError(f"{file}: damaged parquet: {error}") from error


def _array_rows(file: Path, content: BinaryIO) -> list[Any]:
    try:
        rows: list[Any] = json.load(content)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{file}: not JSON: {error}") from error
    return rows


def _usable(number: int, raw_row: Any, ids: set[str | int]) -> XlamRow:
    row = parse_object(raw_row) if isinstance(raw_row, bytes) else raw_row
    if not isinstance(row, Mapping):
        raise RowError(f"a row must be an object, not {type(row).__name__}")
    row_id = row.get("id")
    if isinstance(row_id, str | int):
        if row_id in ids:
            raise RowError(f"id: {row_id!r} was an earlier row's")
        ids.add(row_id)
    query = row.get("query")
    if not isinstance(query, str) or not query.strip():
        raise RowError("query: missing or empty")
    functions = _objects("tools", row.get("tools"))
    answers = tuple(dict.fromkeys(call["name"] for call in _objects("answers", row.get("answers"))))
    if not answers:
        raise RowError("answers: no relevant function: none is called")
    offered = {function["name"] for function in functions}
    for name in answers:
        if name not in offered:
            raise RowError(f"answers: calls {name!r}, which is not among its tools")
    return XlamRow(number, query, answers, functions)


def _objects(key: str, entries: object) -> tuple[Mapping[str, Any], ...]:
    if isinstance(entries, str):
        try:
            entries = json.loads(entries)
        except (ValueError, RecursionError) as error:
            raise RowError(f"{key}: not JSON: {error}") from error
    if not isinstance(entries, list):
        raise RowError(f"{key}: must be a list, or JSON of one")
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise RowError(f"{key}: each must be an object with a name")
    return tuple(entries)
