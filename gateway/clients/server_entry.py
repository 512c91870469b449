"""Reads a server's entry in any client's form into a `ServerSpec`, with unexpanded references."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...errors import ConfigError
from ..connections.server_spec import ServerSpec, TransportName

#: A `timeout` without unit is in milliseconds from this value on, and in seconds below it.
_MIN_MILLISECONDS = 1_000
_TRANSPORTS: Mapping[str, TransportName | None] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "remote": None,  # opencode: the address says which
}
#: Keys of an entry that an error names.
_MAX_KEYS_SHOWN = 5
#: Keys that only Cline writes. Its `timeout` is in seconds.
_CLINE_KEYS = ("autoApprove", "alwaysAllow")


class EntryProblem(ConfigError):
    """A server cannot be used because of a field of its entry.

    Args:
        field: key in the entry, with the key or index inside it; empty for the entry itself.
        reason: what is wrong and what to do. It never contains a value.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}" if field else reason)


@dataclass(frozen=True)
class EntryContext:
    """The context of an entry: format, folder and inputs of its file.

    Args:
        file_format: format of the file.
        folder: folder that relative paths start from.
        workspace: value of `${workspaceFolder}`.
        home: value of `${userHome}`.
        inputs: references by the id of an input, for `${input:ID}`.
    """

    file_format: str
    folder: Path
    workspace: Path
    home: Path
    inputs: Mapping[str, str]

    def with_standard_references(self, text: str) -> str:
        """A text with the client's references converted to the form of `References`."""
        if self.file_format == "opencode":
            text = re.sub(r"(?<!\$)\{env:([^{}]*)\}", r"${\1}", text)
            text = re.sub(r"(?<!\$)\{file:([^{}]*)\}", self._file_reference, text)
        values = {
            "userHome": str(self.home),
            "workspaceFolder": str(self.workspace),
            "workspaceRoot": str(self.workspace),
            "workspaceFolderBasename": self.workspace.name,
            "pathSeparator": os.sep,
            "/": os.sep,
            **{f"input:{name}": reference for name, reference in self.inputs.items()},
        }
        return re.sub(
            r"\$\{([^{}]*)\}", lambda match: values.get(match.group(1), match.group()), text
        )

    def _file_reference(self, match: re.Match[str]) -> str:
        path = match.group(1)
        if not path.startswith("~"):
            path = str(self.folder / path)
        return "${file:" + path + "}"


def read_entry(name: str, entry: Any, context: EntryContext) -> ServerSpec:
    """A server from its entry in a client's file. References are not expanded.

    Raises:
        EntryProblem: a field is missing or wrong.
    """
    if not isinstance(entry, Mapping):
        raise EntryProblem("", "must be a table of settings")
    reader = _EntryReader(entry, context)
    try:
        return ServerSpec(name=name, **reader.read_fields())
    except ValidationError as error:
        raise EntryProblem(*spec_problem(error)) from None


def spec_problem(error: ValidationError) -> tuple[str, str]:
    """Field and reason of the first error of a `ServerSpec`, without the value."""
    first_error = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in first_error["loc"] if part != "[key]")
    reason = str(first_error["msg"])
    message = reason.removeprefix("Value error, ")
    return field, message if message != reason else reason[:1].lower() + reason[1:]


class _EntryReader:
    def __init__(self, entry: Mapping[str, Any], context: EntryContext) -> None:
        self.entry = entry
        self.context = context

    def read_fields(self) -> dict[str, Any]:
        command, args, env = self._read_command()
        key, url = self._first_value("httpUrl", "serverUrl", "url")
        url = None if url is None else self._read_text(key, url)
        openapi = self._read_openapi()
        return {
            "transport": "openapi" if openapi else self._choose_transport(command, url, key),
            "command": command,
            "args": args,
            "env": {**env, **self._read_env()},
            "env_file": self._read_path("envFile", "env_file"),
            "cwd": self._read_path("cwd", "working_dir", "workingDirectory", "working_directory"),
            "url": url,
            "openapi": openapi,
            "headers": self._read_headers(),
            "disabled": self._is_disabled(),
            "description": self._read_description(),
            "tools": self._read_tool_filter(),
            **self._read_timeouts(),
        }

    def _first_value(self, *keys: str) -> tuple[str, Any]:
        """The first key that has a value, and the value."""
        for key in keys:
            if self.entry.get(key) is not None:
                return key, self.entry[key]
        return keys[0], None

    def _read_text(self, field: str, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return repr(value)
        if not isinstance(value, str):
            raise EntryProblem(field, f"must be a text, not {_kind_of_value(value)}")
        return self.context.with_standard_references(value)

    def _read_texts(self, field: str, value: Any) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise EntryProblem(field, f"must be a list of texts, not {_kind_of_value(value)}")
        return tuple(self._read_text(f"{field}.{index}", item) for index, item in enumerate(value))

    def _read_table(
        self, field: str, convert: Callable[[str], str] = lambda text: text
    ) -> dict[str, str]:
        value = self.entry.get(field)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise EntryProblem(field, f"must be a table of texts, not {_kind_of_value(value)}")
        return {
            key: convert(self._read_text(f"{field}.{key}", item))
            for key, item in value.items()
            if item is not None
        }

    def _read_command(self) -> tuple[str | None, tuple[str, ...], dict[str, str]]:
        value = self.entry.get("command")
        args = self._read_texts("args", self.entry.get("args"))
        if value is None:
            if self.entry.get("source") == "extension":
                raise EntryProblem(
                    "command",
                    "an extension of the editor starts this server; give the command it runs",
                )
            return None, args, {}
        if isinstance(value, list):
            words = self._read_texts("command", value)
            if not words:
                raise EntryProblem(
                    "command", "the list is empty; its first item must be the program to start"
                )
            return words[0], words[1:] + args, {}
        if isinstance(value, Mapping):
            command_reader = _EntryReader(value, self.context)
            path = value.get("path", value.get("command"))
            if path is None:
                raise EntryProblem("command.path", "the program to start is missing; add it")
            command_args = command_reader._read_texts("args", value.get("args"))
            return (
                self._read_text("command.path", path),
                command_args + args,
                command_reader._read_table("env"),
            )
        return self._read_text("command", value), args, {}

    def _choose_transport(self, command: str | None, url: str | None, key: str) -> TransportName:
        name, declared = self._first_value("type", "transport")
        if declared is not None:
            kind = declared.lower() if isinstance(declared, str) else ""
            if kind not in _TRANSPORTS:
                raise EntryProblem(name, f"no such transport; use one of: {', '.join(_TRANSPORTS)}")
            if transport := _TRANSPORTS[kind]:
                return transport
        if command is not None and declared is None:
            return "stdio"
        if url is None:
            keys = ", ".join(repr(str(key)[:40]) for key in islice(self.entry, _MAX_KEYS_SHOWN))
            present = f"; its keys: {keys}" if keys else ""
            raise EntryProblem("", f"has neither `command` nor `url`; add one of them{present}")
        path = url.split("?")[0].rstrip("/")
        return "sse" if key != "httpUrl" and path.endswith("/sse") else "http"

    def _read_env(self) -> dict[str, str]:
        inherited: dict[str, str] = {}
        names = self.entry.get("env_vars") or ()
        if not isinstance(names, list | tuple):
            raise EntryProblem("env_vars", "must be a list of names of variables")
        for index, item in enumerate(names):
            name = item.get("name") if isinstance(item, Mapping) else item
            if not isinstance(name, str):
                raise EntryProblem(f"env_vars.{index}", "must be the name of a variable")
            inherited[name] = f"${{{name}:-}}"
        return {
            **inherited,
            **self._read_table("environment", _with_braces),
            **self._read_table("env", _with_braces),
        }

    def _read_headers(self) -> dict[str, str]:
        headers = {
            **self._read_table("http_headers", _with_braces),
            **self._read_table("headers", _with_braces),
        }
        headers |= self._read_table("env_http_headers", lambda name: f"${{{name}}}")
        if (variable := self.entry.get("bearer_token_env_var")) is not None:
            name = self._read_text("bearer_token_env_var", variable)
            headers["Authorization"] = f"Bearer ${{{name}}}"
        return headers

    def _read_path(self, *keys: str) -> str | None:
        key, value = self._first_value(*keys)
        if value is None or value == "":
            return None
        text = self._read_text(key, value)
        return text if text.startswith(("~", "${")) else str(self.context.folder / text)

    def _read_openapi(self) -> str | None:
        path = self._read_path("openapi")
        if path is not None and str(self.entry["openapi"]).startswith(("http://", "https://")):
            raise EntryProblem("openapi", "must be a file; download the document and give its path")
        return path

    def _is_disabled(self) -> bool:
        disabled, enabled = self.entry.get("disabled", False), self.entry.get("enabled", True)
        for field, value in (("disabled", disabled), ("enabled", enabled)):
            if not isinstance(value, bool):
                raise EntryProblem(field, f"must be true or false, not {_kind_of_value(value)}")
        return bool(disabled) or not enabled

    def _read_description(self) -> str | None:
        value = self.entry.get("description")
        return value if isinstance(value, str) and value.strip() else None

    def _read_tool_filter(self) -> dict[str, Any]:
        tools = self.entry.get("tools")
        if isinstance(tools, Mapping) and set(tools) <= {"allow", "deny"}:
            filter_reader = _EntryReader(tools, self.context)
            allow = tools.get("allow")
            return {
                "allow": None if allow is None else filter_reader._read_texts("allow", allow),
                "deny": filter_reader._read_texts("deny", tools.get("deny")),
            }
        allow_key, allowed = self._first_value("includeTools", "enabled_tools")
        if allowed is None and isinstance(tools, list):
            allow_key, allowed = "tools", tools
        deny_key, denied = self._first_value("excludeTools", "disabled_tools", "disabledTools")
        return {
            "allow": None if allowed is None else self._read_texts(allow_key, allowed),
            "deny": self._read_texts(deny_key, denied),
        }

    def _read_timeouts(self) -> dict[str, float]:
        timeouts: dict[str, float] = {}
        entry = self.entry
        if self.context.file_format == "opencode" and isinstance(entry.get("timeout"), Mapping):
            limits = entry["timeout"]  # opencode 2
            entry = {
                **entry,
                "timeout": None,
                "startup_timeout_ms": limits.get("startup"),
                "execution": limits.get("execution"),
            }
        for field, key, scale in (
            ("start_timeout_s", "startup_timeout_ms", 1e-3),
            ("start_timeout_s", "startup_timeout_sec", 1.0),
            ("start_timeout_s", "start_timeout_s", 1.0),
            ("timeout_s", "execution", 1e-3),
            ("timeout_s", "timeout", None),
            ("timeout_s", "tool_timeout_sec", 1.0),
            ("timeout_s", "timeout_s", 1.0),
        ):
            value = entry.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise EntryProblem(key, "must be a number above 0")
            if key == "timeout" and self.context.file_format == "opencode":
                field, scale = "start_timeout_s", 1e-3  # opencode: for listing the tools
            if scale is None:
                is_in_seconds = value < _MIN_MILLISECONDS or any(
                    cline_key in self.entry for cline_key in _CLINE_KEYS
                )
                scale = 1.0 if is_in_seconds else 1e-3
            timeouts[field] = min(value, 1e12) * scale
        return timeouts


def _with_braces(text: str) -> str:
    """Converts Gemini's `$NAME` to `${NAME}`, if the value contains nothing else."""
    return f"${{{text[1:]}}}" if re.fullmatch(r"\$[A-Z][A-Z0-9_]*", text) else text


def _kind_of_value(value: Any) -> str:
    names = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    if isinstance(value, Mapping):
        return "a table"
    return names.get(type(value), "a number" if isinstance(value, int | float) else "a date")
