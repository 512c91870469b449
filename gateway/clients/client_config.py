"""Reads servers from the configuration file of any known MCP client."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...errors import ConfigError
from ..connections.server_spec import ServerSpec
from .config_document import ConfigDocument, read_document
from .config_references import ReferenceProblem, References
from .server_entry import EntryContext, EntryProblem, read_entry, spec_problem

#: Format of a file, and the path of keys to its table of servers. The first match is used.
TABLE_KEYS_BY_FORMAT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mcpServers", ("mcpServers",)),
    ("vscode", ("servers",)),
    ("opencode", ("mcp", "servers")),
    ("vscode", ("mcp", "servers")),
    ("zed", ("context_servers",)),
    ("codex", ("mcp_servers",)),
    ("opencode", ("mcp",)),
)
#: Keys of a file without servers that an error names.
_MAX_KEYS_SHOWN = 5
#: Keys of an entry that clients use and the gateway does not.
_UNSUPPORTED = ("headersHelper", "oauth", "auth", "authProviderType")


@dataclass(frozen=True)
class ClientConfig:
    """The servers and settings of a client's configuration file.

    Args:
        path: the file.
        file_format: `mcpServers`, `vscode`, `zed`, `opencode`, `codex`, or `empty` for a file that
            names no servers.
        servers: servers that can be used, in the order of the file; disabled ones included.
        gateway_settings: the table under the key `shortlist`, unchanged.
        problems: one line each; they never contain a value of `env` or `headers`.
        unusable_servers: names of servers that cannot be used because of a problem.
    """

    path: Path
    file_format: str
    servers: tuple[ServerSpec, ...] = ()
    gateway_settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problems: tuple[str, ...] = ()
    unusable_servers: tuple[str, ...] = ()


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
    return client_config_of(read_document(path), home, references if expand else None)


def client_config_of(
    document: ConfigDocument, home: Path, references: References | None
) -> ClientConfig:
    """The servers of a document. References are expanded if `references` is given.

    Raises:
        ConfigError: the value of `shortlist` is not a table.
    """
    values = document.values
    shortlist = values.get("shortlist", {})
    if not isinstance(shortlist, Mapping):
        raise ConfigError(f"{document.path}: shortlist: a table of settings")
    problems = [
        f"{printable_key(key)}: occurs twice in one table; the last one counts"
        for key in document.repeated_keys
    ]
    table_match = find_servers(values)
    if table_match is None:
        names = ", ".join(dict.fromkeys(".".join(keys) for _, keys in TABLE_KEYS_BY_FORMAT))
        present_keys = ", ".join(map(printable_key, islice(values, _MAX_KEYS_SHOWN))) or "none"
        problems.append(
            f"no servers; a configuration has one of the keys: {names}; "
            f"this file has: {present_keys}"
        )
        return ClientConfig(
            path=document.path,
            file_format="empty",
            servers=(),
            gateway_settings=shortlist,
            problems=tuple(problems),
        )
    file_format, keys, table = table_match
    context = _entry_context(file_format, values, document.path, home)
    servers: list[ServerSpec] = []
    unusable_servers: list[str] = []
    for name, entry in table.items():
        where = f"{'.'.join(keys)}.{printable_key(name)}"
        try:
            spec = read_entry(name, entry, context)
            if _is_switched_off(name, values):
                spec = spec.model_copy(update={"disabled": True})
            problems += [
                f"{where}.{key}: not supported; the server is reached without it"
                for key in _UNSUPPORTED
                if key in entry
            ]
            servers.append(spec if references is None else expand_spec(spec, references))
        except EntryProblem as error:
            unusable_servers.append(name)
            problems.append(f"{where}{'.' if error.field else ': '}{error}")
    problems += _project_problems(values)
    return ClientConfig(
        path=document.path,
        file_format=file_format,
        servers=tuple(servers),
        gateway_settings=shortlist,
        problems=tuple(problems),
        unusable_servers=tuple(unusable_servers),
    )


def find_servers(
    values: Mapping[str, Any],
) -> tuple[str, tuple[str, ...], Mapping[str, Any]] | None:
    """Format of a file, path of keys to its servers, and the servers; None if there are none."""
    for file_format, keys in TABLE_KEYS_BY_FORMAT:
        table: Any = values
        for key in keys:
            table = table.get(key) if isinstance(table, Mapping) else None
        if isinstance(table, Mapping) and (file_format != "opencode" or _is_opencode(keys, table)):
            return file_format, keys, table
    return None


def has_servers(path: Path) -> bool:
    """Whether a file is a client's configuration with MCP servers."""
    try:
        return find_servers(read_document(path).values) is not None
    except ConfigError:
        return False


def expand_spec(spec: ServerSpec, references: References) -> ServerSpec:
    """A server with its references replaced by their values. A disabled server is not changed.

    Raises:
        EntryProblem: names the field and the reference that has no value.
    """
    if spec.disabled:
        return spec
    try:
        expanded = ServerSpec(**{**dict(spec), **dict(_expanded_fields(spec, references))})
    except ValidationError as error:
        raise EntryProblem(*spec_problem(error)) from None
    return expanded


def _expanded_fields(spec: ServerSpec, references: References) -> Iterator[tuple[str, Any]]:
    field = ""
    try:
        for field in ("command", "cwd", "env_file", "openapi"):
            value = getattr(spec, field)
            yield field, None if value is None else references.expand_path(value)
        field = "url"
        yield field, None if spec.url is None else references.expand(spec.url).strip()
        args = []
        for index, value in enumerate(spec.args):
            field = f"args.{index}"
            args.append(references.expand_path(value))
        yield "args", tuple(args)
        headers = {}
        for name, value in spec.revealed_headers().items():
            field = f"headers.{name}"
            headers[name] = references.expand(value).strip()
        yield "headers", headers
        env = {}
        if spec.env_file is not None:
            field = "env_file"
            env = references.env_file(references.expand_path(spec.env_file))
            yield "env_file", None
        for name, value in spec.revealed_env().items():
            field = f"env.{name}"
            env[name] = references.expand(value)
        yield "env", env
    except ReferenceProblem as error:
        raise EntryProblem(field, str(error)) from None


def _entry_context(
    file_format: str, values: Mapping[str, Any], path: Path, home: Path
) -> EntryContext:
    folder = path.absolute().parent
    is_client_folder = folder.name.startswith(".") and folder != home  # .vscode, .cursor, ...
    inputs = values.get("inputs")
    if inputs is None and isinstance(values.get("mcp"), Mapping):
        inputs = values["mcp"].get("inputs")
    return EntryContext(
        file_format=file_format,
        folder=folder,
        workspace=folder.parent if is_client_folder else folder,
        home=home,
        inputs=dict(_input_references(inputs)),
    )


def _input_references(inputs: Any) -> Iterator[tuple[str, str]]:
    """Environment variables for the inputs that VS Code would ask the user for."""
    for row in inputs if isinstance(inputs, list) else ():
        name = row.get("id") if isinstance(row, Mapping) else None
        if not isinstance(name, str):
            continue
        variable = "SHORTLIST_INPUT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
        default = row.get("default")
        is_usable = isinstance(default, str) and not re.search(r"[{}]", default)
        yield name, f"${{{variable}:-{default}}}" if is_usable else f"${{{variable}}}"


def _is_opencode(keys: tuple[str, ...], table: Mapping[str, Any]) -> bool:
    """Whether the table contains opencode's servers, and not settings of Gemini or VS Code."""
    entries = [entry for entry in table.values() if isinstance(entry, Mapping)]
    if keys == ("mcp", "servers"):  # opencode 2; VS Code has other types
        return any(entry.get("type") in ("local", "remote") for entry in entries)
    return not table or any({"command", "url", "type", "enabled"} & set(entry) for entry in entries)


def _is_switched_off(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a server is off by Gemini's lists `mcp.allowed` and `mcp.excluded`."""
    mcp = values.get("mcp")
    if not isinstance(mcp, Mapping):
        return False
    allowed, excluded = mcp.get("allowed"), mcp.get("excluded")
    if isinstance(excluded, list) and name in excluded:
        return True
    return isinstance(allowed, list) and bool(allowed) and name not in allowed


def _project_problems(values: Mapping[str, Any]) -> Iterator[str]:
    projects = values.get("projects")
    for name, project in projects.items() if isinstance(projects, Mapping) else ():
        servers = project.get("mcpServers") if isinstance(project, Mapping) else None
        if isinstance(servers, Mapping) and servers:
            yield (
                f"projects.{printable_key(name)}.mcpServers: {len(servers)} not read, because "
                "they belong to one project; move them to mcpServers to use them here"
            )


def printable_key(name: Any) -> str:
    """A key as a message shows it: short, on one line."""
    text = str(name)
    if re.fullmatch(r"[\w@/.-]{1,80}", text):
        return text
    return repr(text if len(text) <= 80 else text[:79] + "…")
