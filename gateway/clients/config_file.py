"""A configuration file: read, edited and written. JSON with comments, or TOML (ending `.toml`).

An edit changes servers only; the rest of the file stays as it is, comments included. Errors name
line and column, and quote no text of the file.

Only the standard library is imported at first: each process of an attached client reads a file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import takewhile
from operator import getitem
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    import tomlkit.items

#: Largest file that is read, in bytes. Some clients keep their history in the same file.
MAX_FILE_BYTES = 16 * 1024 * 1024
#: Most levels of tables and lists in a file. Real files have fewer than ten.
_MAX_LEVELS = 100
_BACKUP_SUFFIX = ".shortlist-backup"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file as it was read.

    Args:
        path: path of the file.
        data: its bytes; None if there is no file.
        text: its text, without a byte order mark.
        values: its top-level table.
        repeated_keys: keys that occur twice in one JSON object. The last of them is used.
    """

    path: Path
    data: bytes | None = field(repr=False)
    text: str = field(repr=False)
    values: dict[str, Any] = field(repr=False)
    repeated_keys: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str | Path, *, may_be_missing: bool = False) -> ConfigFile:
        """The file at a path.

        Args:
            path: the file.
            may_be_missing: whether no file, or one of white space only, is an empty table.

        Raises:
            ConfigError: the file cannot be read, is larger than `MAX_FILE_BYTES`, or cannot be
                parsed.

        Example::

            file = ConfigFile.read("mcp.json")
            file.replace(file.with_servers(("mcpServers",), ["old"], {"new": {"command": "x"}}))
        """
        path = Path(path)
        data = read_bytes(path)
        if may_be_missing and not (data or b"").strip():
            return cls(path=path, data=data, text=_format_of(path).EMPTY, values={})
        if data is None:
            raise ConfigError(f"{path}: cannot be read: No such file or directory")
        return cls.parse(path, data)

    @classmethod
    def parse(cls, path: Path, data: bytes) -> ConfigFile:
        """The file with these bytes.

        Raises:
            ConfigError: they cannot be parsed.
        """
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            place = _place(data[: error.start].decode("latin-1"))
            raise ConfigError(f"{path}:{place}: not UTF-8; save it as UTF-8") from None
        try:
            values, repeated_keys = _format_of(path).parse(path, text)
            is_too_deep = _is_deeper(values, _MAX_LEVELS)
        except RecursionError:
            values, is_too_deep = None, True
        except ValueError:
            raise ConfigError(f"{path}:1:1: a number or a date in it is out of range") from None
        if is_too_deep:
            raise ConfigError(f"{path}:1:1: tables are nested too deeply")
        if not isinstance(values, dict):
            kind = kind_of_value(values)
            raise ConfigError(f"{path}:1:1: the file must contain a table of settings, not {kind}")
        return cls(path=path, data=data, text=text, values=values, repeated_keys=repeated_keys)

    @property
    def is_toml(self) -> bool:
        """Whether it is TOML; JSON otherwise."""
        return _format_of(self.path) is _Toml

    @property
    def comments(self) -> tuple[str, ...]:
        """Its comments; for TOML, also a `#` after white space in a string."""
        return _format_of(self.path).comments(self.text)

    def written(self, values: Mapping[str, Any]) -> str:
        """The text of values in the format of this file.

        Raises:
            MissingExtraError: the file is TOML, and the extra `gateway` is not installed.
        """
        return _format_of(self.path).write(values)

    def with_servers(
        self, keys: tuple[str, ...], remove: Collection[str], add: Mapping[str, Any]
    ) -> bytes:
        """The bytes of the file with servers removed and added.

        Args:
            keys: path of keys to the table of servers, which is created if it is missing.
            remove: names of servers to remove.
            add: entries to add or to replace, by name.

        Raises:
            ConfigError: the file cannot be edited without loss.
            MissingExtraError: the file is TOML, and the extra `gateway` is not installed.
        """
        wanted = self._edited(self.values, keys, remove, add)
        if wanted == self.values:
            return self.text.encode() if self.data is None else self.data
        data = _format_of(self.path).edit(self.text, keys, remove, add).encode()
        try:
            edited = self.parse(self.path, data).values
        except ConfigError:
            edited = {}
        # TOML has no sign of an empty table once its entries are gone.
        if _without_empty(edited, keys[0]) != _without_empty(wanted, keys[0]):
            raise ConfigError(
                f"{self.path}: {'.'.join(keys)} is written in a way that cannot be edited "
                "safely; make the change by hand"
            )
        return data

    def _edited(
        self,
        values: Mapping[str, Any],
        keys: tuple[str, ...],
        remove: Collection[str],
        add: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The values with entries removed from and added to the table at a path of keys."""
        if not keys:
            remaining = {name: entry for name, entry in values.items() if name not in remove}
            return {**remaining, **add}
        table = values.get(keys[0], {})
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"{self.path}: {keys[0]}: not a table of servers; correct the file by hand"
            )
        edited = self._edited(table, keys[1:], remove, add)
        return {**values, keys[0]: edited} if edited or keys[0] in values else dict(values)

    def loses_comments(self, data: bytes) -> bool:
        """Whether comments of the file are missing in its new bytes. The backup has them."""
        comments_after = _format_of(self.path).comments(data.decode())
        return bool(Counter(self.comments) - Counter(comments_after))

    def replace(self, data: bytes | None, *, backup: bool = True) -> Path | None:
        """Write new bytes, after a backup of the file as it was.

        If the path is a symbolic link, the linked file is changed. The file keeps its mode.

        Args:
            data: the new bytes; None to delete the file.
            backup: whether to write a backup. It is empty if there was no file.

        Returns:
            The backup.

        Raises:
            ConfigError: the file was changed since it was read, cannot be written, or is a link to
                a file that does not exist. In a stranger's folder, the link would choose where a
                new file with secrets is written.
        """
        # Attached clients only read files, and this import takes longer than all others here.
        from ...catalog.text_file import OWNER_ONLY_MODE, replace_file

        path = self.path.resolve()
        if self.path.is_symlink() and not path.exists():
            raise ConfigError(
                f"{self.path}: a link to {path}, which does not exist; delete the link"
            )
        if read_bytes(path) != self.data:
            raise ConfigError(
                f"{path}: another program changed the file in the meantime; run the command again"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            backup_path = _backup_paths(path)[-1] if backup else None
            if backup_path is not None:
                replace_file(backup_path, [self.data or b""])
            if data is None:
                path.unlink(missing_ok=True)
            else:
                # A new file may contain secrets.
                mode = OWNER_ONLY_MODE if self.data is None else path.stat().st_mode & 0o7777
                replace_file(path, [data], mode=mode)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
        return backup_path


def read_bytes(path: Path) -> bytes | None:
    """The bytes of a file; None if there is no file.

    Raises:
        ConfigError: the file cannot be read, or is larger than `MAX_FILE_BYTES`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes; give a smaller file")
    return data


def kind_of_value(value: Any) -> str:
    """What a message calls the type of a value."""
    if isinstance(value, Mapping):
        return "a table"
    names = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "a date")


def backups(path: Path) -> list[Path]:
    """The backups of a file, oldest first."""
    return _backup_paths(path.resolve())[:-1]


def _backup_paths(path: Path) -> list[Path]:
    """Paths of the backups, oldest first, then the path for the next one."""
    paths = [path.with_name(path.name + _BACKUP_SUFFIX)]
    while paths[-1].exists():
        paths.append(path.with_name(f"{path.name}{_BACKUP_SUFFIX}-{len(paths) + 1}"))
    return paths


def _place(text_before: str) -> str:
    """Line and column after a text."""
    return f"{text_before.count(chr(10)) + 1}:{len(text_before) - text_before.rfind(chr(10))}"


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether tables and lists are nested deeper than some levels."""
    if not isinstance(value, dict | list):
        return False
    children = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(child, levels - 1) for child in children)


def _without_empty(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The values without a key whose value is empty."""
    return {name: value for name, value in values.items() if value or name != key}


def _format_of(path: Path) -> type[_Json] | type[_Toml]:
    return _Toml if path.suffix.lower() == ".toml" else _Json


_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
_STRING_OR_COMMENT = re.compile(rf"({_STRING})|//[^\n\r]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
#: A string or a comma without a value before it, which are not changed; or a trailing comma.
_STRING_OR_TRAILING_COMMA = re.compile(
    rf"({_STRING}|[\[{{,][ \t\r\n]*,)|,(?=[ \t\r\n]*[\]}}])", re.DOTALL
)
_SPACE = re.compile(r"[ \t\r\n]*")


def plain_json(text: str) -> str:
    """The text with comments and trailing commas replaced by spaces, so that offsets stay the same.

    Example:
        >>> plain_json('[1, /* two */ 2,]')
        '[1,           2 ]'
    """

    def blank(match: re.Match[str]) -> str:
        return match.group(1) or re.sub(r"[^\r\n]", " ", match.group())

    return _STRING_OR_TRAILING_COMMA.sub(blank, _STRING_OR_COMMENT.sub(blank, text))


class _Member(NamedTuple):
    """One member of a JSON object: its key, and offsets of it, of its value and after the value."""

    key: str
    start: int
    value_start: int
    end: int


class _Json:
    """JSON with comments and trailing commas."""

    EMPTY = "{}\n"

    @staticmethod
    def parse(path: Path, text: str) -> tuple[Any, tuple[str, ...]]:
        repeated_keys: list[str] = []

        def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            values = dict(pairs)
            if len(values) < len(pairs):
                counts = Counter(key for key, _ in pairs)
                repeated_keys.extend(key for key, count in counts.items() if count > 1)
            return values

        try:
            value = json.loads(plain_json(text), object_pairs_hook=build_object)
        except json.JSONDecodeError as error:
            message = error.msg[:1].lower() + error.msg[1:]
            raise ConfigError(f"{path}:{error.lineno}:{error.colno}: not JSON: {message}") from None
        return value, tuple(dict.fromkeys(repeated_keys))

    @staticmethod
    def comments(text: str) -> tuple[str, ...]:
        tokens = _STRING_OR_COMMENT.finditer(text)
        return tuple(token.group() for token in tokens if token.group(1) is None)

    @staticmethod
    def write(values: Mapping[str, Any]) -> str:
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"

    @staticmethod
    def edit(
        text: str, keys: tuple[str, ...], remove: Collection[str], add: Mapping[str, Any]
    ) -> str:
        text = _without_members(text, keys, set(remove) - set(add))
        for name, entry in add.items():
            text = _with_member(text, keys, name, entry)
        return text


def _members(plain: str, offset: int) -> list[_Member]:
    """Members of the object at an offset of a plain JSON text."""
    members: list[_Member] = []
    decoder = json.JSONDecoder()
    offset = _skip_space(plain, offset + 1)
    while plain[offset] != "}":
        start = offset
        key, offset = decoder.raw_decode(plain, offset)
        value_start = _skip_space(plain, _skip_space(plain, offset) + 1)
        _, end = decoder.raw_decode(plain, value_start)
        members.append(_Member(key, start, value_start, end))
        offset = _skip_space(plain, end)
        if plain[offset] == ",":
            offset = _skip_space(plain, offset + 1)
    return members


def _last_member(members: list[_Member], key: str) -> _Member | None:
    return next((member for member in reversed(members) if member.key == key), None)


def _skip_space(text: str, offset: int) -> int:
    space = _SPACE.match(text, offset)
    return offset if space is None else space.end()


def _deepest_object(plain: str, keys: tuple[str, ...]) -> tuple[int, int]:
    """Offset of the deepest object that exists on a path of keys, and how many keys lead to it."""
    offset = _skip_space(plain, 0)
    for depth, key in enumerate(keys):
        member = _last_member(_members(plain, offset), key)
        if member is None:
            return offset, depth
        offset = member.value_start
    return offset, len(keys)


def _without_members(text: str, keys: tuple[str, ...], names: Collection[str]) -> str:
    plain = plain_json(text)
    offset, depth = _deepest_object(plain, keys)
    members = _members(plain, offset)
    if depth < len(keys) or not any(member.key in names for member in members):
        return text
    kept = [index for index, member in enumerate(members) if member.key not in names]
    if not kept:
        return text[: offset + 1] + text[plain.index("}", members[-1].end) :]
    text = text[: members[kept[-1]].end] + text[members[-1].end :]
    for index in reversed(range(kept[-1])):
        if members[index].key in names:
            text = text[: members[index].start] + text[members[index + 1].start :]
    return text


def _with_member(text: str, keys: tuple[str, ...], name: str, value: Any) -> str:
    plain = plain_json(text)
    offset, depth = _deepest_object(plain, keys)
    # The missing objects and the value are inserted together.
    key, *inner_keys = (*keys, name)[depth:]
    for inner_key in reversed(inner_keys):
        value = {inner_key: value}
    line_end = "\r\n" if "\r\n" in text else "\n"
    indented_line = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    indent = indented_line.group(1) if indented_line else "  "
    members = _members(plain, offset)
    last = members[-1] if members else None
    margin = _margin(text, last.start) if last else _margin(text, offset) + indent
    value_text = json.dumps(value, indent=indent, ensure_ascii=False)
    value_text = value_text.replace("\n", line_end + margin)
    if (present := _last_member(members, key)) is not None:
        return text[: present.value_start] + value_text + text[present.end :]
    line = f"{line_end}{margin}{json.dumps(key, ensure_ascii=False)}: {value_text}"
    if last is not None:
        return f"{text[: last.end]},{line}{text[last.end :]}"
    rest = text[offset + 1 :]
    if rest.lstrip(" \t").startswith("}"):
        rest = line_end + margin.removesuffix(indent) + rest.lstrip(" \t")
    return text[: offset + 1] + line + rest


def _margin(text: str, offset: int) -> str:
    """White space at the start of the line of an offset."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


class _Toml:
    """TOML. `tomlkit` edits and writes it."""

    EMPTY = ""

    @staticmethod
    def parse(path: Path, text: str) -> tuple[Any, tuple[str, ...]]:
        try:
            return tomllib.loads(text), ()
        except tomllib.TOMLDecodeError as error:
            place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            line_and_column = f"{place[1]}:{place[2]}" if place else _place(text)
            raise ConfigError(f"{path}:{line_and_column}: not TOML") from None

    @staticmethod
    def comments(text: str) -> tuple[str, ...]:
        return tuple(re.findall(r"(?:^|\s)#.*", text, re.MULTILINE))

    @staticmethod
    def write(values: Mapping[str, Any]) -> str:
        return str(_tomlkit().dumps(values))

    @staticmethod
    def edit(
        text: str, keys: tuple[str, ...], remove: Collection[str], add: Mapping[str, Any]
    ) -> str:
        tomlkit = _tomlkit()
        try:
            document = tomlkit.parse(text)
            _drop_tables(document.body, keys, {*remove, *add})
            body: str = tomlkit.dumps(document)
            document = tomlkit.parse(body)
            table: Any = document
            for key in keys:
                table = table.get(key, {})
            if isinstance(table, tomlkit.items.InlineTable):
                table.update(add)
                return str(tomlkit.dumps(document))
        except (tomlkit.exceptions.TOMLKitError, ValueError, RecursionError):
            return text  # which the caller refuses
        if not add:
            return body
        tables: Any = dict(add)
        for key in reversed(keys):
            tables = {key: tables}
        line_end = "\r\n" if "\r\n" in text else "\n"
        # At the end: tomlkit would insert it before the comments of the next table.
        separator = "" if not body else line_end if body.endswith("\n") else 2 * line_end
        return body + separator + str(tomlkit.dumps(tables)).replace("\n", line_end)


def _tomlkit() -> ModuleType:
    try:
        import tomlkit.exceptions
        import tomlkit.items
    except ImportError:
        raise MissingExtraError("editing TOML files", "gateway") from None
    return tomlkit


def _drop_tables(
    body: list[tuple[tomlkit.items.Key | None, tomlkit.items.Item]],
    keys: tuple[str, ...],
    names: Collection[str],
) -> None:
    """Remove tables from the content of a TOML document or table; the comments after them stay."""
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
    lines = re.split(r"(?<=\n)", item.as_string())
    after = list(takewhile(lambda line: not line.strip() or line.lstrip()[0] == "#", lines[::-1]))
    text = "".join(after[::-1])
    return text if "#" in text else ""
