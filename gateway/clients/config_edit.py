"""Changes a client's file.

Edits its servers, keeps the rest with comments, writes atomically, and keeps backups.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...catalog.text_file import OWNER_ONLY_MODE, replace_file
from ...errors import ConfigError, MissingExtraError
from .config_document import (
    ConfigDocument,
    Member,
    comments,
    members,
    parse_document,
    plain_json,
    read_bytes,
)

if TYPE_CHECKING:
    import tomlkit.items


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
    expected = _edited_values(document.values, keys, remove, add)
    if expected == document.values:
        return document.text
    if document.is_toml:
        text = _edit_toml(document.text, keys, {*remove, *add}, add)
    else:
        text = _edit_json(document.text, keys, remove, add)
    try:
        edited = parse_document(document.path, text.encode()).values
        is_as_expected = edited == expected or (
            document.is_toml and edited == _without_empty_table(expected, keys[0])
        )
    except ConfigError:
        is_as_expected = False
    if not is_as_expected:
        raise ConfigError(
            f"{document.path}: {'.'.join(keys)} is written in a way that cannot be edited "
            "safely; make the change by hand"
        )
    return text


def _without_empty_table(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The values of a TOML file, which has no sign of an empty table once its entries are gone."""
    return {name: value for name, value in values.items() if value or name != key}


def lost_comments(before: ConfigDocument, after: str) -> bool:
    """Whether an edit removed comments. The backup still has them."""
    comments_after = Counter(comments(after, is_toml=before.is_toml))
    return bool(Counter(comments(before.text, is_toml=before.is_toml)) - comments_after)


def empty_document(path: Path) -> ConfigDocument:
    """The document for a file that does not exist."""
    is_toml = path.suffix.lower() == ".toml"
    return ConfigDocument(path=path, text="" if is_toml else "{}\n", values={}, is_toml=is_toml)


def _edited_values(
    values: Mapping[str, Any],
    keys: tuple[str, ...],
    remove: Collection[str],
    add: Mapping[str, Any],
) -> dict[str, Any]:
    if not keys:
        remaining = {name: entry for name, entry in values.items() if name not in remove}
        return {**remaining, **add}
    table = values.get(keys[0], {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{keys[0]}: not a table of servers; correct the file by hand")
    edited_table = _edited_values(table, keys[1:], remove, add)
    return {**values, keys[0]: edited_table} if edited_table or keys[0] in values else dict(values)


def _edit_json(
    text: str, keys: tuple[str, ...], remove: Collection[str], add: Mapping[str, Any]
) -> str:
    for name in remove:
        if name not in add and (offset := _find_object(text, keys)) is not None:
            text = _remove_member(text, offset, name)
    for name, entry in add.items():
        key, value, parent = name, entry, keys
        # The missing tables and the entry are inserted together, into the deepest existing table.
        while (offset := _find_object(text, parent)) is None:
            key, value, parent = parent[-1], {key: value}, parent[:-1]
        text = _set_member(text, offset, key, value)
    return text


def _find_object(text: str, keys: tuple[str, ...]) -> int | None:
    """Offset of the object under a path of keys; None if there is none."""
    plain = plain_json(text)
    offset = len(plain) - len(plain.lstrip())
    for key in keys:
        member = _find_member(plain, offset, key)
        if member is None:
            return None
        offset = member.value_start
    return offset


def _find_member(plain: str, offset: int, key: str) -> Member | None:
    return next(
        (member for member in reversed(list(members(plain, offset))) if member.key == key), None
    )


def _remove_member(text: str, offset: int, key: str) -> str:
    plain = plain_json(text)
    object_members = list(members(plain, offset))
    index = next((index for index, member in enumerate(object_members) if member.key == key), None)
    if index is None:
        return text
    if len(object_members) == 1:
        end = plain.index("}", object_members[0].end)
        return text[: offset + 1] + text[end:]
    if index + 1 < len(object_members):
        return text[: object_members[index].start] + text[object_members[index + 1].start :]
    return text[: object_members[index - 1].end] + text[object_members[index].end :]


def _set_member(text: str, offset: int, key: str, value: Any) -> str:
    plain = plain_json(text)
    line_end = "\r\n" if "\r\n" in text else "\n"
    indented_line = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    indent_unit = indented_line.group(1) if indented_line else "  "
    object_members = list(members(plain, offset))
    last = object_members[-1] if object_members else None
    margin = _line_margin(text, last.start if last else offset)
    if last is None:
        margin += indent_unit
    existing = _find_member(plain, offset, key)
    value_text = json.dumps(value, indent=indent_unit, ensure_ascii=False)
    value_text = value_text.replace("\n", line_end + margin)
    if existing is not None:
        return text[: existing.value_start] + value_text + text[existing.end :]
    line = f"{line_end}{margin}{json.dumps(key, ensure_ascii=False)}: {value_text}"
    if last is not None:
        return f"{text[: last.end]},{line}{text[last.end :]}"
    rest = text[offset + 1 :]
    if rest.lstrip(" \t").startswith("}"):
        rest = line_end + margin.removesuffix(indent_unit) + rest.lstrip(" \t")
    return text[: offset + 1] + line + rest


def _line_margin(text: str, offset: int) -> str:
    """White space at the start of the line of an offset."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _edit_toml(
    text: str, keys: tuple[str, ...], names_to_drop: Collection[str], add: Mapping[str, Any]
) -> str:
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
        from tomlkit.items import InlineTable
    except ImportError:
        raise MissingExtraError("editing TOML files", "gateway") from None
    try:
        document = tomlkit.parse(text)
        _drop_tables(document.body, keys, names_to_drop)
        body = tomlkit.dumps(document)
        document = tomlkit.parse(body)
        table: Any = document
        for key in keys:
            table = table.get(key, {})
        if isinstance(table, InlineTable):
            table.update(add)
            return tomlkit.dumps(document)
    except (TOMLKitError, ValueError, RecursionError):
        return text  # which the caller refuses
    if not add:
        return body
    tables: Any = dict(add)
    for key in reversed(keys):
        tables = {key: tables}
    line_end = "\r\n" if "\r\n" in text else "\n"
    # At the end: tomlkit would insert it before the comments of the next table.
    separator = "" if not body else line_end if body.endswith("\n") else 2 * line_end
    return body + separator + tomlkit.dumps(tables).replace("\n", line_end)


def _drop_tables(
    body: list[tuple[tomlkit.items.Key | None, tomlkit.items.Item]],
    keys: tuple[str, ...],
    names: Collection[str],
) -> None:
    """Remove tables from the content of a TOML document or table; the comments after them stay.

    Args:
        body: the content, which is changed.
        keys: path of keys to the tables.
        names: names of the tables to remove.
    """
    from tomlkit.items import InlineTable, Table, Whitespace

    for index, (key, item) in enumerate(body):
        if key is None:
            continue
        if not keys and key.key in names:
            body[index] = (None, Whitespace(_comments_after(item), fixed=True))
        elif keys and key.key == keys[0] and isinstance(item, InlineTable):
            table: Any = reduce(getitem, keys[1:], item)
            for name in names:
                table.pop(name, None)
        elif keys and key.key == keys[0] and isinstance(item, Table):
            _drop_tables(item.value.body, keys[1:], names)


def _comments_after(item: tomlkit.items.Item) -> str:
    """The comments at the end of a table, which may be about the table that follows."""
    from tomlkit.items import AoT, Table

    if isinstance(item, AoT):
        return _comments_after(item.body[-1])
    if not isinstance(item, Table):
        return ""
    lines: list[str] = []
    for key, part in reversed(item.value.body):
        if key is not None:
            lines.append(_comments_after(part))
            break
        lines.append(part.as_string())
    text = "".join(reversed(lines))
    return text if "#" in text else ""


_BACKUP_SUFFIX = ".shortlist-backup"


@dataclass(frozen=True)
class FileChange:
    """New content of one file.

    Args:
        path: the file.
        before: its bytes when the change was planned; None if there was no file.
        after: its new bytes; None to delete it.
    """

    path: Path
    before: bytes | None = field(repr=False)
    after: bytes | None = field(repr=False)

    @property
    def is_needed(self) -> bool:
        """Whether the content differs."""
        return self.before != self.after


def read_or_none(path: Path) -> bytes | None:
    """Bytes of a file; None if it does not exist.

    Raises:
        ConfigError: the file exists and cannot be read, or is too large.
    """
    try:
        return read_bytes(path)
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def apply_change(change: FileChange, *, backup: bool = True) -> Path | None:
    """Write a change, after a backup of the file as it was.

    If the path is a symbolic link, the linked file is changed. The file keeps its mode.

    Returns:
        The backup. It is empty if there was no file. None without a backup.

    Raises:
        ConfigError: the file was changed since the change was planned, cannot be written, or is a
            link to a file that does not exist. In a stranger's folder, the link would choose where
            a new file with secrets is written.
    """
    path = change.path.resolve()
    if change.path.is_symlink() and not path.exists():
        raise ConfigError(f"{change.path}: a link to {path}, which does not exist; delete the link")
    if read_or_none(path) != change.before:
        raise ConfigError(
            f"{path}: another program changed the file in the meantime; run the command again"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        backup_path = _back_up(path, change.before or b"") if backup else None
        if change.after is None:
            path.unlink(missing_ok=True)
        else:
            # A new file may contain secrets.
            mode = OWNER_ONLY_MODE if change.before is None else path.stat().st_mode & 0o7777
            replace_file(path, [change.after], mode=mode)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    return backup_path


def last_backup(path: Path) -> Path | None:
    """The newest backup of a file; None if there is none."""
    path = path.resolve()
    existing = [backup for backup in _backups(path) if backup.is_file()]
    return existing[-1] if existing else None


def _backups(path: Path) -> list[Path]:
    """Paths of the backups, oldest first, then the path for the next one."""
    names = [path.with_name(path.name + _BACKUP_SUFFIX)]
    while names[-1].exists():
        names.append(path.with_name(f"{path.name}{_BACKUP_SUFFIX}-{len(names) + 1}"))
    return names


def _back_up(path: Path, data: bytes) -> Path:
    backup_path = _backups(path)[-1]
    descriptor = os.open(backup_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        backup_path.unlink(missing_ok=True)
        raise
    return backup_path
