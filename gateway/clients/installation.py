"""Adds the gateway to a client's configuration, with a preview and an undo."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ..connections.masking import masked_entry
from ..connections.server_spec import ServerSpec
from .client_config import ClientConfig, client_config_of, printable_key, table_at
from .client_import import add_server, find_configs, is_same_server
from .config_file import ConfigFile, backups, read_bytes
from .known_clients import GATEWAY_NAME, Client, gateway_command
from .server_entry import mcp_servers_entry

_GATEWAY_TABLE_KEYS = ("mcpServers",)
_HOOKS_KEYS, _HOOK_EVENTS = ("hooks",), ("PreToolUse", "UserPromptSubmit")
_OWN_HOOK = re.compile(r"""(?:^|[\s/'"\\])shortlist(?:\.exe)?['"]?\s+hook(?:\s|$)""")
_EMPTY_CONFIG = b'{\n  "mcpServers": {}\n}\n'


@dataclass(frozen=True)
class InstallPlan:
    """The changes of an installation, or of its undo.

    Args:
        changes: each file as it was read, and its new bytes, None to delete it; the client's file
            is last.
        preview: the change of each table of servers as a unified diff, secrets masked.
        notes: what the user should know before agreeing.
        moved_servers: names, in the gateway's file, of the servers that move there from the
            client's file.
        backup_to_delete: for an undo, the backup that it restores.
        leftovers: for an undo, the gateway's file and its backups, if nothing needs them any more.
    """

    changes: tuple[tuple[ConfigFile, bytes | None], ...]
    preview: str
    notes: tuple[str, ...] = ()
    moved_servers: tuple[str, ...] = ()
    backup_to_delete: Path | None = None
    leftovers: tuple[Path, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether any file changes."""
        return any(file.data != data for file, data in self.changes)

    def apply(self) -> tuple[Path, ...]:
        """Write the files, each after a backup, unless it is an undo.

        Returns:
            The backups.

        Raises:
            ConfigError: a file changed since the plan was made, or cannot be written.
        """
        paths = []
        for file, data in self.changes:
            if file.data == data:
                continue
            # The backup of a client without a file is empty: undo deletes the file.
            is_client_file = file is self.changes[-1][0]
            needs_backup = file.data is not None or is_client_file
            paths.append(file.replace(data, backup=needs_backup and not self.backup_to_delete))
        if self.backup_to_delete is not None:
            self.backup_to_delete.unlink(missing_ok=True)
        return tuple(path for path in paths if path is not None)


def plan_install(
    client: Client,
    path: Path,
    config: Path,
    home: Path,
    *,
    beside: bool = False,
    with_hooks: bool = False,
) -> InstallPlan:
    """The changes that put the gateway into a client's file.

    The client's other servers move into the gateway's file. A server with an unreadable entry
    stays.

    Args:
        client: the client.
        path: its configuration file; it need not exist.
        config: the gateway's configuration file.
        home: home directory of the user.
        beside: whether the client's other servers stay in its file.
        with_hooks: whether the client's hooks ask the gateway.

    Raises:
        ConfigError: a file cannot be read, or cannot be edited without loss, or the gateway has no
            hooks for this client.
    """
    path, config = path.absolute(), config.absolute()
    if path.resolve() == config.resolve():
        raise ConfigError(
            f"{config}: this is the file of {client.title} itself; give another file with --config"
        )
    client_file = ConfigFile.read(path, may_be_missing=True)
    gateway_file = ConfigFile.read(config, may_be_missing=True)
    if beside and gateway_file.data is None:
        raise ConfigError(
            f"{config}: no such file; write one, or run: shortlist import --out {config}"
        )
    client_config = client_config_of(client_file, home, table_keys=client.table_keys)
    gateway_config = client_config_of(gateway_file, home)
    moving = () if beside else client_config.other_servers
    entries, names = _entries_to_add(gateway_file, gateway_config, moving, client.name)
    client_data = client_file.with_servers(
        client.table_keys,
        [spec.name for spec in moving],
        {GATEWAY_NAME: client.gateway_entry(config)},
    )
    if gateway_file.data is None and not moving:
        gateway_data = _EMPTY_CONFIG
    else:
        gateway_data = gateway_file.with_servers(_GATEWAY_TABLE_KEYS, (), entries)
    notes = [
        f"{link}: a link; what changes is {link.resolve()}"
        for link in (config, path)
        if link.is_symlink()
    ]
    # The file may be another's, such as the `mcp.json` of a repository. The preview has only what
    # is near a change.
    if present_names := _names_missing_in(moving, gateway_config):
        listed = ", ".join(present_names)
        notes.append(f"{config}: has servers already, which start too: {listed}")
    if client_config.table_keys:
        notes += [f"{path}: {problem}" for problem in client_config.problems]
    if client_config.unusable_servers and not beside:
        names_left = ", ".join(map(printable_key, client_config.unusable_servers))
        notes.append(f"{path}: not moved, because they cannot be read: {names_left}")
    if client_file.loses_comments(client_data):
        notes.append(f"{path}: comments beside the servers are lost; the backup keeps them")
    elif client_file.comments:
        notes.append(f"{path}: has comments; they stay")
    if with_hooks and not client.hooks_file:
        raise ConfigError(f"{client.title}: the gateway has hooks for Claude Code only")
    hooks = _changed_hooks(client, home, _hooks_of(config)) if with_hooks else ()
    notes += [f"{file.path}: sets the hooks {', '.join(_HOOK_EVENTS)}" for file, _ in hooks]
    return InstallPlan(
        changes=((gateway_file, gateway_data), *hooks, (client_file, client_data)),
        preview="\n".join(
            (
                *_preview(gateway_file, gateway_data, _GATEWAY_TABLE_KEYS),
                *_preview(client_file, client_data, client.table_keys),
            )
        ),
        notes=tuple(notes),
        moved_servers=names,
    )


def plan_undo(client: Client, path: Path, home: Path) -> InstallPlan:
    """The changes that undo the last installation in a client's file.

    If only servers changed since then, the file is restored byte for byte. Otherwise the gateway's
    entry is removed and the missing servers are added again. Its hooks are removed. The gateway's
    file does not change; the notes say whether something still needs it.

    Raises:
        ConfigError: there is no backup, or a file cannot be read or edited.
    """
    path = path.absolute()
    if not (backup_paths := backups(path)):
        raise ConfigError(
            f"{path}: there is no backup of an installation, so nothing can be undone"
        )
    client_file = ConfigFile.read(path, may_be_missing=True)
    restored = read_bytes(backup_paths[-1]) or None
    old_values = ConfigFile.parse(path, restored).values if restored else {}
    notes = []
    if _without_servers(client_file.values, client) != _without_servers(old_values, client):
        servers = table_at(client_file.values, client.table_keys) or {}
        old_servers = table_at(old_values, client.table_keys) or {}
        restored = client_file.with_servers(
            client.table_keys,
            [GATEWAY_NAME],
            {
                name: entry
                for name, entry in old_servers.items()
                if name not in servers or name == GATEWAY_NAME
            },
        )
        notes = [f"{path}: other settings changed since; only servers are put back"]
    stays, leftovers = _after_undo(client, client_file, restored, home)
    hooks = _changed_hooks(client, home, {}) if client.hooks_file else ()
    return InstallPlan(
        changes=(*hooks, (client_file, restored)),
        preview="\n".join(_preview(client_file, restored, client.table_keys)),
        notes=(
            *notes,
            *(f"{file.path}: the hooks of the gateway are removed" for file, _ in hooks),
            *stays,
        ),
        backup_to_delete=backup_paths[-1],
        leftovers=tuple(leftovers),
    )


def _hooks_of(config: Path) -> dict[str, Any]:
    """Event to the hook that asks the gateway, in the form of Claude Code."""
    program = shlex.quote(gateway_command())
    commands = {
        "PreToolUse": f"{program} hook",
        "UserPromptSubmit": f"{program} hook prompt --config {shlex.quote(str(config))}",
    }
    hooks: dict[str, Any] = {
        event: {"hooks": [{"type": "command", "command": command}]}
        for event, command in commands.items()
    }
    hooks["PreToolUse"]["matcher"] = f"mcp__{GATEWAY_NAME}__.*"
    return hooks


def _changed_hooks(
    client: Client, home: Path, hooks: Mapping[str, Any]
) -> tuple[tuple[ConfigFile, bytes | None], ...]:
    """The client's file of hooks, with these hooks of the gateway and no others of it.

    Raises:
        ConfigError: the file cannot be read, or cannot be edited without loss.
    """
    file = ConfigFile.read((home / client.hooks_file).absolute(), may_be_missing=True)
    present = table_at(file.values, _HOOKS_KEYS) or {}
    changed: dict[str, list[Any]] = {}
    for event in _HOOK_EVENTS:
        rows = present.get(event, [])
        if not isinstance(rows, list):
            raise ConfigError(f"{file.path}: hooks.{event}: must be a list; correct the file")
        others = [row for row in rows if not _is_own_hook(row)]
        changed[event] = [*others, hooks[event]] if event in hooks else others
    remaining = {event: rows for event, rows in changed.items() if rows}
    data = file.with_servers(_HOOKS_KEYS, [*changed.keys() - remaining.keys()], remaining)
    return () if data == file.data or not (hooks or file.data) else ((file, data),)


def _is_own_hook(row: Any) -> bool:
    """Whether an entry of Claude Code's hooks runs `shortlist hook` alone."""
    hooks = row.get("hooks") if isinstance(row, Mapping) else None
    commands = [
        hook.get("command") if isinstance(hook, Mapping) else None
        for hook in (hooks if isinstance(hooks, list) else ())
    ]
    return bool(commands) and all(
        isinstance(command, str) and _OWN_HOOK.search(command) for command in commands
    )


def _entries_to_add(
    gateway_file: ConfigFile,
    gateway_config: ClientConfig,
    specs: Iterable[ServerSpec],
    client: str,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Entries to add to the gateway's file, and the new name of each server."""
    specs = tuple(specs)
    can_edit = not gateway_file.is_toml and gateway_config.table_keys in ((), _GATEWAY_TABLE_KEYS)
    if specs and not can_edit:
        raise ConfigError(
            f"{gateway_file.path}: servers can only move into a JSON file with the key "
            "mcpServers; give such a file with --config, or use --beside"
        )
    servers = {spec.name: spec for spec in gateway_config.servers}
    present_names = {*servers, *gateway_config.unusable_servers}
    names = [add_server(servers, spec, client, gateway_config.unusable_servers) for spec in specs]
    new_names = [name for name in dict.fromkeys(names) if name not in present_names]
    return {name: mcp_servers_entry(servers[name]) for name in new_names}, tuple(names)


def _names_missing_in(servers: Iterable[ServerSpec], config: ClientConfig) -> list[str]:
    """Names of the servers of a configuration that are not among some servers."""
    servers = tuple(servers)
    return [
        printable_key(spec.name)
        for spec in config.other_servers
        if not any(is_same_server(spec, server) for server in servers)
    ]


def _after_undo(
    client: Client, client_file: ConfigFile, restored: bytes | None, home: Path
) -> tuple[list[str], list[Path]]:
    """Notes on the gateway's files that a client's file starts, and those that nothing needs."""
    path = client_file.path
    undone_file = (
        ConfigFile(path=path, data=None, text="", values={})
        if restored is None
        else ConfigFile.parse(path, restored)
    )
    configs = [(client, client_config_of(undone_file, home, table_keys=client.table_keys))]
    configs += [row for row in find_configs(home) if row[1].path.resolve() != path.resolve()]
    servers = [spec for _, config in configs for spec in config.other_servers]
    notes: list[str] = []
    leftovers: list[Path] = []
    before = client_config_of(client_file, home, table_keys=client.table_keys)
    for gateway_path in filter(Path.is_absolute, before.started_gateways):
        try:
            gateway_file = ConfigFile.read(gateway_path)
            gateway_config = client_config_of(gateway_file, home)
        except ConfigError as error:
            notes.append(str(error))
            continue
        titles = [
            other.title
            for other, config in configs
            # The gateway may have the file of another client.
            if gateway_path.resolve() in map(Path.resolve, (config.path, *config.started_gateways))
        ]
        unique = _names_missing_in(servers, gateway_config)
        unique += map(printable_key, gateway_config.unusable_servers)
        unique += (
            f"the key {printable_key(key)}"
            for key in gateway_file.values
            if key not in _GATEWAY_TABLE_KEYS
        )
        if titles:
            notes.append(f"{gateway_path}: stays, because it is in use by: {', '.join(titles)}")
        elif unique:
            notes.append(f"{gateway_path}: stays, because only it has: {', '.join(unique)}")
        else:
            notes.append(
                f"{gateway_path}: no client's file in {home} starts it any more, and they have "
                "all its servers"
            )
            leftovers += [gateway_path, *backups(gateway_path)]
    return notes, leftovers


def _without_servers(values: Mapping[str, Any], client: Client) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != client.table_keys[0]}


def _preview(file: ConfigFile, data: bytes | None, keys: tuple[str, ...]) -> Iterator[str]:
    if data == file.data:
        return
    values = {} if data is None else ConfigFile.parse(file.path, data).values
    yield from unified_diff(
        _masked_lines(file, file.values, keys),
        _masked_lines(file, values, keys),
        str(file.path),
        str(file.path) if data is not None else "(deleted)",
        lineterm="",
    )


def _masked_lines(file: ConfigFile, values: Mapping[str, Any], keys: tuple[str, ...]) -> list[str]:
    """The servers of a file as lines in its format, with masked secrets."""
    table = table_at(values, keys)
    if table is None:
        return []
    shown: dict[str, Any] = {name: masked_entry(entry) for name, entry in table.items()}
    for key in reversed(keys):
        shown = {key: shown}
    return file.written(shown).rstrip("\n").split("\n")
