"""Edits the servers in a client's file. The rest of the file stays, comments included."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .commented_json import Member, members, plain_json
from .document import ConfigDocument, comments, parse_document


def edit_servers(
    document: ConfigDocument, keys: tuple[str, ...], remove: Collection[str], add: Mapping[str, Any]
) -> str:
    """The text of a file with servers removed and added.

    Args:
        document: the file.
        keys: path of keys to the table of servers, which is created if it is missing.
        remove: names of servers to remove.
        add: entries to add or to replace, by name.

    Raises:
        ConfigError: the file cannot be edited without loss.
    """
    wanted = _wanted(document.values, keys, remove, add)
    if wanted == document.values:
        return document.text
    if document.is_toml:
        text = _edit_toml(document.text, keys, {*remove, *add}, add)
    else:
        text = _edit_json(document.text, keys, remove, add)
    try:
        edited = parse_document(document.path, text.encode()).values
        # TOML has no sign of an empty table once its last one is gone.
        is_right = edited == wanted or (
            document.is_toml and edited == {k: v for k, v in wanted.items() if v or k != keys[0]}
        )
    except ConfigError:
        is_right = False
    if not is_right:
        raise ConfigError(
            f"{document.path}: {'.'.join(keys)} is written in a way that cannot be edited "
            "safely; make the change by hand"
        )
    return text


def lost_comments(before: ConfigDocument, after: str) -> bool:
    """Whether an edit removed comments. The backup still has them."""
    left = Counter(comments(after, is_toml=before.is_toml))
    return bool(Counter(comments(before.text, is_toml=before.is_toml)) - left)


def empty_document(path: Path) -> ConfigDocument:
    """The document for a file that does not exist."""
    is_toml = path.suffix.lower() == ".toml"
    return ConfigDocument(path, "" if is_toml else "{}\n", {}, is_toml)


def _wanted(
    values: Mapping[str, Any],
    keys: tuple[str, ...],
    remove: Collection[str],
    add: Mapping[str, Any],
) -> dict[str, Any]:
    if not keys:
        kept = {name: entry for name, entry in values.items() if name not in remove}
        return {**kept, **add}
    inner = values.get(keys[0], {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{keys[0]}: not a table of servers; correct the file by hand")
    changed = _wanted(inner, keys[1:], remove, add)
    return {**values, keys[0]: changed} if changed or keys[0] in values else dict(values)


def _edit_json(
    text: str, keys: tuple[str, ...], remove: Collection[str], add: Mapping[str, Any]
) -> str:
    for name in remove:
        if name not in add and (at := _object_at(text, keys)) is not None:
            text = _without(text, at, name)
    for name, entry in add.items():
        path, value = keys, {name: entry}
        # The missing tables and the entry are inserted together, into the deepest existing table.
        while (at := _object_at(text, path)) is None:
            path, value = path[:-1], {path[-1]: value}
        ((key, inner),) = value.items()
        text = _with(text, at, key, inner)
    return text


def _object_at(text: str, keys: tuple[str, ...]) -> int | None:
    """Offset of the object under a path of keys; None if there is none."""
    plain = plain_json(text)
    at = len(plain) - len(plain.lstrip())
    for key in keys:
        member = _member(plain, at, key)
        if member is None:
            return None
        at = member.value
    return at


def _member(plain: str, at: int, key: str) -> Member | None:
    return next((one for one in reversed(list(members(plain, at))) if one.key == key), None)


def _without(text: str, at: int, key: str) -> str:
    plain = plain_json(text)
    every = list(members(plain, at))
    place = next((place for place, one in enumerate(every) if one.key == key), None)
    if place is None:
        return text
    if len(every) == 1:
        end = plain.index("}", every[0].end)
        return text[: at + 1] + text[end:]
    if place + 1 < len(every):
        return text[: every[place].start] + text[every[place + 1].start :]
    return text[: every[place - 1].end] + text[every[place].end :]


def _with(text: str, at: int, key: str, value: Any) -> str:
    plain = plain_json(text)
    line_end = "\r\n" if "\r\n" in text else "\n"
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    unit = found.group(1) if found else "  "
    every = list(members(plain, at))
    last = every[-1] if every else None
    margin = _margin(text, last.start if last else at)
    if last is None:
        margin += unit
    old = _member(plain, at, key)
    written = json.dumps(value, indent=unit, ensure_ascii=False)
    written = written.replace("\n", line_end + margin)
    if old is not None:
        return text[: old.value] + written + text[old.end :]
    line = f"{line_end}{margin}{json.dumps(key, ensure_ascii=False)}: {written}"
    if last is not None:
        return f"{text[: last.end]},{line}{text[last.end :]}"
    rest = text[at + 1 :]
    if rest.lstrip(" \t").startswith("}"):
        rest = line_end + margin.removesuffix(unit) + rest.lstrip(" \t")
    return text[: at + 1] + line + rest


def _margin(text: str, at: int) -> str:
    """White space at the start of the line of an offset."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _edit_toml(
    text: str, keys: tuple[str, ...], drop: Collection[str], add: Mapping[str, Any]
) -> str:
    kept: list[str] = []
    dropping = False
    held: list[str] = []  # comments and blank lines, which may belong to the next table
    for line in text.splitlines(keepends=True):
        path = _toml_header(line)
        if path is not None:
            dropping = path[: len(keys)] == keys and path[len(keys) : len(keys) + 1] in {
                (name,) for name in drop
            }
        if not dropping:
            kept += [*held, line]
            held = []
        elif not line.strip() or line.lstrip().startswith("#"):
            held.append(line)
        else:
            held = []
    kept += held
    body = "".join(kept)
    for name, entry in add.items():
        head = ".".join([*keys, name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _toml(name)])
        rows = "".join(f"{key} = {_toml(value)}\n" for key, value in entry.items())
        gap = "" if not body else "\n" if body.endswith("\n") else "\n\n"
        body = f"{body}{gap}[{head}]\n{rows}"
    return body


def _toml_header(line: str) -> tuple[str, ...] | None:
    found = re.fullmatch(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?", line.rstrip("\r\n"))
    if found is None:
        return None
    try:
        table: Any = tomllib.loads(f"{found.group(1)} = 0")
    except tomllib.TOMLDecodeError:
        return None
    path: list[str] = []
    while isinstance(table, dict):
        ((key, table),) = table.items()
        path.append(key)
    return tuple(path)


def _toml(value: Any) -> str:
    """A TOML value; texts are written as JSON, which TOML reads."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(k))} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
