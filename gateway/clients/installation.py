"""Adds the gateway to a client's configuration, with a preview and an undo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from itertools import chain
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ..connections.masking import masked_entry
from ..connections.server_spec import ServerSpec
from .client_config import client_config_of, find_servers, printable_key
from .client_import import free_names, is_gateway, is_same_server, mcp_servers_entry, with_name
from .config_document import ConfigDocument, parse_document
from .config_edit import (
    FileChange,
    apply_change,
    edit_servers,
    empty_document,
    last_backup,
    lost_comments,
    read_or_none,
)
from .known_clients import GATEWAY_NAME, Client

_GATEWAY_FILE_TABLE_KEYS = ("mcpServers",)
_EMPTY_CONFIG = '{\n  "mcpServers": {}\n}\n'


@dataclass(frozen=True)
class InstallPlan:
    """The changes of an installation, or of its undo.

    Args:
        changes: files and their new content, in the order of writing.
        preview: the change of each table of servers as a unified diff, secrets masked.
        notes: what the user should know before agreeing.
        moved_servers: names, in the gateway's file, of the servers that move there from the
            client's file.
        backup_to_delete: backup to delete after the plan was applied.
    """

    changes: tuple[FileChange, ...]
    preview: str
    notes: tuple[str, ...] = ()
    moved_servers: tuple[str, ...] = ()
    backup_to_delete: Path | None = None

    @property
    def is_needed(self) -> bool:
        """Whether any file changes."""
        return any(change.is_needed for change in self.changes)


def plan_install(
    client: Client, file: Path, config: Path, home: Path, *, beside: bool = False
) -> InstallPlan:
    """The changes that put the gateway into a client's file.

    The client's other servers move into the gateway's file. A server with an unreadable entry
    stays.

    Args:
        client: the client.
        file: its configuration file; it need not exist.
        config: the gateway's configuration file.
        home: home directory of the user.
        beside: whether the client's other servers stay in its file.

    Raises:
        ConfigError: a file cannot be read, or cannot be edited without loss.
    """
    file, config = file.absolute(), config.absolute()
    if file.resolve() == config.resolve():
        raise ConfigError(
            f"{config}: this is the file of {client.title} itself; give another file with --config"
        )
    client_document, client_bytes = _read_file(file)
    gateway_document, gateway_bytes = _read_file(config)
    if beside and gateway_bytes is None:
        raise ConfigError(
            f"{config}: no such file; write one, or run: shortlist import --out {config}"
        )
    client_config = client_config_of(client_document, home, None)
    movable_servers = (
        () if beside else tuple(spec for spec in client_config.servers if not is_gateway(spec))
    )
    moved_entries, names = _entries_to_add(gateway_document, movable_servers, client.name, home)
    gateway_entry = client.gateway_entry(config)
    client_text = edit_servers(
        client_document,
        client.server_table_keys,
        [spec.name for spec in movable_servers],
        {GATEWAY_NAME: gateway_entry},
    )
    gateway_text = gateway_document.text
    if movable_servers:
        gateway_text = edit_servers(gateway_document, _GATEWAY_FILE_TABLE_KEYS, (), moved_entries)
    elif gateway_bytes is None:
        gateway_text = _EMPTY_CONFIG
    notes = [
        *_notes_on_links(config, file),
        *_notes_on_present_servers(gateway_document, home, movable_servers),
    ]
    notes += [
        f"{file}: {problem}"
        for problem in client_config.problems
        if client_config.file_format != "empty"
    ]
    if client_config.unusable_servers and not beside:
        names_left = ", ".join(map(printable_key, client_config.unusable_servers))
        notes.append(f"{file}: not moved, because they cannot be read: {names_left}")
    if lost_comments(client_document, client_text):
        notes.append(f"{file}: comments beside the servers are lost; the backup keeps them")
    elif client_document.has_comments:
        notes.append(f"{file}: has comments; they stay")
    changes = (
        _planned_change(config, gateway_bytes, gateway_document, gateway_text),
        _planned_change(file, client_bytes, client_document, client_text),
    )
    preview = _preview(changes, {config: gateway_document, file: client_document})
    return InstallPlan(changes=changes, preview=preview, notes=tuple(notes), moved_servers=names)


def plan_undo(client: Client, file: Path) -> InstallPlan:
    """The changes that undo the last installation in a client's file.

    If only servers changed since then, the file is restored byte for byte. Otherwise the gateway's
    entry is removed and the missing servers are added again. The gateway's file does not change.

    Raises:
        ConfigError: there is no backup, or a file cannot be read or edited.
    """
    file = file.absolute()
    backup = last_backup(file)
    if backup is None:
        raise ConfigError(
            f"{file}: there is no backup of an installation, so nothing can be undone"
        )
    current_document, current_bytes = _read_file(file)
    backup_bytes = read_or_none(backup)
    old_document = parse_document(file, backup_bytes) if backup_bytes else empty_document(file)
    notes: tuple[str, ...] = ()
    restored_bytes: bytes | None = backup_bytes or None
    if _without_servers(current_document, client) != _without_servers(old_document, client):
        current_servers = _server_table(current_document, client)
        old_servers = _server_table(old_document, client)
        missing_servers = {
            name: entry for name, entry in old_servers.items() if name not in current_servers
        }
        if GATEWAY_NAME in old_servers:
            missing_servers[GATEWAY_NAME] = old_servers[GATEWAY_NAME]
        restored_bytes = edit_servers(
            current_document, client.server_table_keys, [GATEWAY_NAME], missing_servers
        ).encode()
        notes = (f"{file}: other settings changed since; only servers are put back",)
    changes = (FileChange(path=file, before=current_bytes, after=restored_bytes),)
    return InstallPlan(
        changes=changes,
        preview=_preview(changes, {file: current_document}),
        notes=notes,
        backup_to_delete=backup,
    )


def apply_plan(plan: InstallPlan) -> tuple[Path, ...]:
    """Write a plan's files, each after a backup.

    Returns:
        The backups.

    Raises:
        ConfigError: a file changed since the plan was made, or cannot be written.
    """
    backups = []
    for change in plan.changes:
        if change.is_needed:
            # The client's file is last. Its backup is empty if there was none: undo deletes it.
            needs_backup = change.before is not None or change is plan.changes[-1]
            backups.append(
                apply_change(change, backup=needs_backup and plan.backup_to_delete is None)
            )
    if plan.backup_to_delete is not None:
        plan.backup_to_delete.unlink(missing_ok=True)
    return tuple(backup for backup in backups if backup is not None)


def _read_file(path: Path) -> tuple[ConfigDocument, bytes | None]:
    data = read_or_none(path)
    return (parse_document(path, data) if data and data.strip() else empty_document(path)), data


def _planned_change(
    path: Path, file_bytes: bytes | None, document: ConfigDocument, new_text: str
) -> FileChange:
    # An unchanged text keeps its bytes, which may start with a byte order mark.
    is_unchanged = file_bytes is not None and new_text == document.text
    return FileChange(
        path=path, before=file_bytes, after=file_bytes if is_unchanged else new_text.encode()
    )


def _entries_to_add(
    gateway_document: ConfigDocument, specs: Iterable[ServerSpec], client: str, home: Path
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Entries to add to the gateway's file, and the new name of each server."""
    specs = tuple(specs)
    gateway_config = client_config_of(gateway_document, home, None)
    if specs and (
        gateway_document.is_toml or gateway_config.file_format not in ("mcpServers", "empty")
    ):
        raise ConfigError(
            f"{gateway_document.path}: servers can only move into a JSON file with the key "
            "mcpServers; give such a file with --config, or use --beside"
        )
    servers = {spec.name: spec for spec in gateway_config.servers}
    taken_names = {*servers, *gateway_config.unusable_servers}
    entries: dict[str, Any] = {}
    names: list[str] = []
    for spec in specs:
        for name in free_names(spec.name, client):
            if name in servers and is_same_server(servers[name], spec):
                break
            if name not in taken_names:
                entries[name] = mcp_servers_entry(spec)
                taken_names.add(name)
                servers[name] = with_name(spec, name)
                break
        names.append(name)
    return entries, tuple(names)


def _notes_on_links(*paths: Path) -> list[str]:
    return [
        f"{path}: a link; what changes is {path.resolve()}" for path in paths if path.is_symlink()
    ]


def _notes_on_present_servers(
    gateway_document: ConfigDocument, home: Path, client_servers: Iterable[ServerSpec]
) -> list[str]:
    """A note if the gateway's file already has servers that the client does not have.

    The file may be another's, such as the `mcp.json` of a repository, and the client will start its
    servers too. The preview has only what is near a change.
    """
    servers = client_config_of(gateway_document, home, None).servers
    client_servers = tuple(client_servers)
    names = [
        printable_key(spec.name)
        for spec in servers
        if not is_gateway(spec)
        and not any(is_same_server(spec, client_spec) for client_spec in client_servers)
    ]
    if not names:
        return []
    return [f"{gateway_document.path}: has servers already, which start too: {', '.join(names)}"]


def _server_table(document: ConfigDocument, client: Client) -> Mapping[str, Any]:
    table: Any = document.values
    for key in client.server_table_keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, Mapping) else {}


def _without_servers(document: ConfigDocument, client: Client) -> dict[str, Any]:
    values = dict(document.values)
    values.pop(client.server_table_keys[0], None)
    return values


def _preview(changes: Iterable[FileChange], documents: Mapping[Path, ConfigDocument]) -> str:
    diffs = []
    for change in changes:
        if not change.is_needed:
            continue
        after = parse_document(change.path, change.after) if change.after else None
        diffs.append(
            unified_diff(
                _masked_lines(documents[change.path]),
                [] if after is None else _masked_lines(after),
                str(change.path),
                str(change.path) if change.after is not None else "(deleted)",
                lineterm="",
            )
        )
    return "\n".join(chain.from_iterable(diffs))


def _masked_lines(document: ConfigDocument) -> list[str]:
    """The servers of a file as lines of JSON with masked secrets."""
    table_match = find_servers(document.values)
    if table_match is None:
        return []
    _, keys, table = table_match
    entries = {name: masked_entry(entry) for name, entry in table.items()}
    return json.dumps({".".join(keys): entries}, indent=2, default=str).splitlines()
