"""Reads servers from the configuration file of any known MCP client."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from ...errors import ConfigError
from ..connections.server_spec import ServerSpec
from .config_file import MAX_FILE_BYTES, ConfigFile
from .config_references import References, with_standard_references
from .known_clients import CLIENTS, GATEWAY_NAME
from .server_entry import EntryProblem, expanded_spec, key_problems, read_entry

#: Paths of keys to a table of servers. The first match is used. `mcp` is last: it may hold
#: `mcp.servers`, and other clients have settings there.
_TABLE_KEYS = sorted(
    dict.fromkeys(client.table_keys for client in CLIENTS.values()),
    key=lambda keys: keys == ("mcp",),
)
#: Keys of a file without servers that an error names.
_MAX_KEYS_SHOWN = 5


@dataclass(frozen=True)
class ClientConfig:
    """The servers and settings of a client's configuration file.

    Args:
        path: the file.
        table_keys: path of keys to its table of servers; empty for a file that names no servers.
        servers: servers that can be used, in the order of the file; disabled ones included.
        gateway_settings: the table under the key `shortlist`, unchanged.
        problems: one line each; they never contain a value of `env` or `headers`.
        unusable_servers: server that cannot be used because of a problem in its entry, to that
            problem.
    """

    path: Path
    table_keys: tuple[str, ...] = ()
    servers: tuple[ServerSpec, ...] = ()
    gateway_settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problems: tuple[str, ...] = ()
    unusable_servers: Mapping[str, str] = field(default_factory=dict)

    @property
    def other_servers(self) -> tuple[ServerSpec, ...]:
        """Its servers without this gateway, which must not start itself."""
        return tuple(spec for spec in self.servers if not _is_gateway(spec))

    @property
    def started_gateways(self) -> dict[Path, Path | None]:
        """Gateways that the file starts: path of `--config` to path of `--settings`, or None."""
        gateways: dict[Path, Path | None] = {}
        for spec in self.servers:
            if not _is_gateway(spec) or "serve" not in spec.args:
                continue
            options: dict[str, Path] = {}
            words = iter(spec.args[spec.args.index("serve") + 1 :])
            for word in words:
                name, equals, value = word.partition("=")
                if name in ("--config", "--settings"):
                    options[name] = Path(spec.cwd or "", value if equals else next(words, ""))
            if "--config" in options:
                gateways[options["--config"]] = options.get("--settings")
        return gateways


def read_client_config(
    path: str | Path,
    *,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    expand: bool = True,
) -> ClientConfig:
    """The servers of a configuration file of any known client.

    A server that cannot be used is left out and becomes a problem. References of a disabled
    server are not expanded.

    Args:
        path: the file, JSON (comments and trailing commas allowed) or TOML.
        environment: variables that references name; those of this process by default.
        home: home directory; that of the user by default.
        expand: whether `${...}` references are replaced by their values.

    Raises:
        ConfigError: the file cannot be read or parsed; names file, line and column.

    Example::

        config = read_client_config("mcp.json")
        for server in config.servers:
            print(server)
        for problem in config.problems:
            print(problem)
    """
    home = Path.home() if home is None else home
    references = References(os.environ if environment is None else environment, home)
    return client_config_of(ConfigFile.read(path), home, references if expand else None)


def client_config_of(
    file: ConfigFile,
    home: Path,
    references: References | None = None,
    table_keys: tuple[str, ...] | None = None,
) -> ClientConfig:
    """The servers of a file that was read.

    Args:
        file: the file.
        home: home directory.
        references: expands references; None to leave them as they are.
        table_keys: path of keys to the table of servers; by default, the first known one that the
            file has.

    Raises:
        ConfigError: the value of `shortlist` is not a table.
    """
    gateway_settings = file.values.get("shortlist", {})
    if not isinstance(gateway_settings, Mapping):
        raise ConfigError(f"{file.path}: shortlist: a table of settings")
    problems = [
        f"{printable_key(key)}: occurs twice in one table; the last one counts"
        for key in file.repeated_keys
    ]
    keys = _find_table_keys(file.values) if table_keys is None else table_keys
    table = table_at(file.values, keys)
    if table is None or not keys:
        names = ", ".join(map(".".join, _TABLE_KEYS))
        present_keys = ", ".join(map(printable_key, islice(file.values, _MAX_KEYS_SHOWN))) or "none"
        problems.append(
            f"no servers; a configuration has one of the keys: {names}; "
            f"this file has: {present_keys}"
        )
        return ClientConfig(
            path=file.path, gateway_settings=gateway_settings, problems=tuple(problems)
        )
    is_opencode = keys[0] == "mcp" and _is_opencode(keys, table)
    entries = with_standard_references(
        table, file.path, home, _vscode_inputs(file.values), is_opencode=is_opencode
    )
    folder = file.path.absolute().parent
    servers: list[ServerSpec] = []
    unusable_servers: dict[str, str] = {}
    for name, entry in entries.items():
        where = f"{'.'.join(keys)}.{printable_key(name)}"
        try:
            spec = read_entry(name, entry, folder, is_opencode=is_opencode)
            if _is_switched_off(name, file.values):
                spec = spec.model_copy(update={"disabled": True})
            problems += [
                f"{where}.{printable_key(key)}: {problem}" for key, problem in key_problems(entry)
            ]
            servers.append(spec if references is None else expanded_spec(spec, references))
        except EntryProblem as error:
            unusable_servers[name] = str(error)
            problems.append(f"{where}{'.' if error.field else ': '}{error}")
    problems += _project_problems(file.values)
    return ClientConfig(
        path=file.path,
        table_keys=keys,
        servers=tuple(servers),
        gateway_settings=gateway_settings,
        problems=tuple(problems),
        unusable_servers=unusable_servers,
    )


def table_at(values: Mapping[str, Any], keys: tuple[str, ...]) -> Mapping[str, Any] | None:
    """The table at a path of keys; None if there is none."""
    table: Any = values
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, Mapping) else None


def disable_server(path: Path, name: str, *, disabled: bool) -> None:
    """Disable or enable a server in a configuration file. The rest of the file stays as it is.

    The file is backed up first if comments of the entry would be lost.

    Raises:
        ConfigError: the file cannot be read or edited, has no such server, or has a list of
            servers that decides.

    Example::

        disable_server(Path("mcp.json"), "github", disabled=True)
    """
    file = ConfigFile.read(path)
    keys = _find_table_keys(file.values)
    table = table_at(file.values, keys) or {}
    entry = table.get(name)
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{path}: no server {printable_key(name)}")
    changed = {key: value for key, value in entry.items() if key != "disabled"}
    is_opencode = keys[0] == "mcp" and _is_opencode(keys, table)
    if is_opencode or "enabled" in entry:
        changed["enabled"] = not disabled
    elif disabled:
        changed["disabled"] = True
    if file.is_toml:
        data = file.with_servers(keys, (), {name: changed})
    else:  # the form of the entry stays
        added = {key: value for key, value in changed.items() if entry.get(key) != value}
        data = file.with_servers((*keys, name), entry.keys() - changed.keys(), added)
    if not disabled and _is_switched_off(name, file.values):
        raise ConfigError(
            f"{path}: mcp.allowed or mcp.excluded switches {printable_key(name)} off; "
            "change that list by hand"
        )
    file.replace(data, backup=file.loses_comments(data))


def has_servers(path: Path) -> bool:
    """Whether a file is a client's configuration with MCP servers.

    Raises:
        ConfigError: the file has the key `mcpServers`, and cannot be parsed.
    """
    try:
        return bool(_find_table_keys(ConfigFile.read(path).values))
    except ConfigError:
        try:
            with path.open("rb") as file:
                names_servers = b'"mcpServers"' in file.read(MAX_FILE_BYTES)
        except OSError:
            return False
        if names_servers:
            raise
        return False


def printable_key(name: Any) -> str:
    """A key as a message shows it: short, on one line."""
    text = str(name)
    if re.fullmatch(r"[\w@/.-]{1,80}", text):
        return text
    return repr(text if len(text) <= 80 else text[:79] + "…")


def _is_gateway(spec: ServerSpec) -> bool:
    programs = {PurePath(word).stem for word in (spec.command or "", *spec.args)}
    return spec.name == GATEWAY_NAME or ("shortlist" in programs and "serve" in spec.args)


def _find_table_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Path of keys to the servers of a file; empty if it has none."""
    for keys in _TABLE_KEYS:
        table = table_at(values, keys)
        if table is not None and (keys != ("mcp",) or _is_opencode(keys, table)):
            return keys
    return ()


def _is_opencode(keys: tuple[str, ...], table: Mapping[str, Any]) -> bool:
    """Whether a table below `mcp` has opencode's servers, not settings of Gemini or VS Code."""
    entries = [entry for entry in table.values() if isinstance(entry, Mapping)]
    if keys == ("mcp", "servers"):  # opencode 2; VS Code has other types
        return any(entry.get("type") in ("local", "remote") for entry in entries)
    return not table or any({"command", "url", "type", "enabled"} & set(entry) for entry in entries)


def _vscode_inputs(values: Mapping[str, Any]) -> Any:
    """What VS Code asks the user for: in its `mcp.json`, or in its `settings.json` below `mcp`."""
    inputs = values.get("inputs")
    if inputs is None and (mcp := table_at(values, ("mcp",))) is not None:
        inputs = mcp.get("inputs")
    return inputs


def _is_switched_off(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a server is off by Gemini's lists `mcp.allowed` and `mcp.excluded`."""
    mcp = table_at(values, ("mcp",)) or {}
    allowed, excluded = mcp.get("allowed"), mcp.get("excluded")
    if isinstance(excluded, list) and name in excluded:
        return True
    return isinstance(allowed, list) and bool(allowed) and name not in allowed


def _project_problems(values: Mapping[str, Any]) -> Iterator[str]:
    for name, project in (table_at(values, ("projects",)) or {}).items():
        servers = project.get("mcpServers") if isinstance(project, Mapping) else None
        if isinstance(servers, Mapping) and servers:
            yield (
                f"projects.{printable_key(name)}.mcpServers: {len(servers)} not read, because "
                "they belong to one project; move them to mcpServers to use them here"
            )
