"""References in a configuration, such as `${TOKEN}`, and their values.

| reference | value |
|---|---|
| `${NAME}`, `${env:NAME}` | the environment variable |
| `${NAME:-default}` | the variable, or the default if it is unset or empty |
| `${keyring:NAME}` | the secret that `shortlist secret set NAME` stored |
| `${keyring:SERVICE/USER}` | the password that another program stored in the system keyring |
| `${file:PATH}` | the text of a file, without white space around it |

Other text in braces does not change, unless it has the form `word:...`, which is an error.
References inside values are not expanded. `with_standard_references` converts what clients write in
other forms: `{env:NAME}` of opencode, `${workspaceFolder}` and `${input:ID}` of VS Code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ...errors import ConfigError, MissingExtraError
from ..connections.secret_store import DEFAULT_SERVICE, secret_store

REFERENCE = re.compile(r"\$\{([^{}]*)\}")
"""A reference, with what stands in its braces."""
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_REFERENCE_KINDS = "${NAME}, ${NAME:-default}, ${env:NAME}, ${keyring:NAME}, ${file:PATH}"
_MAX_FILE_BYTES = 1024 * 1024


class References:
    """Expands references from the environment, the secret store and files.

    Args:
        environment: variables by name.
        home: home directory, the value of `~`.
    """

    def __init__(self, environment: Mapping[str, str], home: Path) -> None:
        self._environment = environment
        self._home = home

    def expand(self, text: str) -> str:
        """The text with every reference replaced by its value.

        Raises:
            ConfigError: a reference has no value.
        """
        if re.search(r"\$\{[^{}]*\$\{", text):
            raise ConfigError("references cannot be nested; use one variable for the whole value")
        return REFERENCE.sub(lambda match: self._value_of(match.group(1), match.group()), text)

    def expand_path(self, text: str) -> str:
        """`expand`, with a leading `~` or `~/` replaced by the home directory."""
        text = self.expand(text)
        if text == "~" or text.startswith(("~/", "~\\")):
            return str(self._home) + text[1:]
        return text

    def env_file(self, path: str) -> dict[str, str]:
        """The variables in a file of `NAME=value` lines, as dotenv reads it. `$` has no meaning.

        Raises:
            ConfigError: the file cannot be read, a line is not `NAME=value`, or the extra
                `gateway` is not installed.
        """
        try:
            from dotenv.parser import parse_stream
        except ImportError:
            raise MissingExtraError("an env file", "gateway") from None
        variables: dict[str, str] = {}
        for binding in parse_stream(StringIO(self._file_text(path))):
            if binding.key is not None and binding.value is not None:
                variables[binding.key] = binding.value
            elif binding.error or binding.key is not None:
                text = binding.original.string
                blank_lines = text[: len(text) - len(text.lstrip())].count("\n")
                line = binding.original.line + blank_lines
                raise ConfigError(f"line {line} of the file is not NAME=value; correct it")
        return variables

    def _value_of(self, content: str, reference: str) -> str:
        if variable := _VARIABLE.fullmatch(content):
            name, default = variable.groups()
            value = self._environment.get(name)
            if value or (value is not None and default is None):
                return value
            if default is None:
                raise ConfigError(
                    f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
                )
            return default
        prefix, colon, rest = content.partition(":")
        if prefix == "keyring" and colon:
            return self._keyring_value(rest)
        if prefix == "file" and colon:
            return self._file_text(rest).strip()
        if colon and re.fullmatch(r"[A-Za-z_]\w*", prefix):
            raise ConfigError(
                f"there is no kind of reference '{prefix:.40}:'; use one of: {_REFERENCE_KINDS}"
            )
        return reference

    def _keyring_value(self, content: str) -> str:
        service, slash, user = content.rpartition("/")
        if not slash:
            service = DEFAULT_SERVICE
        if not (service and user):
            raise ConfigError(
                "wrong keyring reference; write ${keyring:NAME} or ${keyring:SERVICE/USER}"
            )
        value = secret_store().get(service, user)
        if value is None:
            if service == DEFAULT_SERVICE:
                command = f"shortlist secret set {user}"
            else:
                command = f"keyring set {service} {user}"
            raise ConfigError(f"the keyring has no password for {content}; store it: {command}")
        return value

    def _file_text(self, path: str) -> str:
        file_path = Path(str(self._home) + path[1:] if path.startswith("~/") else path)
        try:
            with file_path.open("rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
            text = data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise ConfigError(f"the file {path:.200} cannot be read: {reason}") from None
        if len(data) > _MAX_FILE_BYTES:
            raise ConfigError(f"the file {path:.200} is larger than {_MAX_FILE_BYTES:,} bytes")
        return text


def with_standard_references(
    values: Any, file: Path, home: Path, inputs: Any, *, is_opencode: bool
) -> Any:
    """Values of a client's file with all references in the form that `References` expands.

    Args:
        values: a table, a list or a text.
        file: the file; its folder is that of the project, or a folder such as `.vscode` in it.
        home: value of `${userHome}`.
        inputs: what VS Code would ask the user for. `${input:ID}` becomes the environment variable
            `SHORTLIST_INPUT_ID`.
        is_opencode: whether `{env:NAME}` and `{file:PATH}` are references.
    """
    folder = file.absolute().parent
    is_client_folder = folder.name.startswith(".") and folder != home  # .vscode, .cursor, ...
    workspace = folder.parent if is_client_folder else folder
    references = {
        "userHome": str(home),
        "workspaceFolder": str(workspace),
        "workspaceRoot": str(workspace),
        "workspaceFolderBasename": workspace.name,
        "pathSeparator": os.sep,
        "/": os.sep,
        **dict(_input_references(inputs)),
    }

    def file_reference(match: re.Match[str]) -> str:
        path = match[1] if match[1].startswith("~") else str(folder / match[1])
        return f"${{file:{path}}}"

    def convert(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: convert(item) for key, item in value.items()}
        if isinstance(value, list):
            return [convert(item) for item in value]
        if not isinstance(value, str):
            return value
        if is_opencode:
            value = re.sub(r"(?<!\$)\{env:([^{}]*)\}", r"${\1}", value)
            value = re.sub(r"(?<!\$)\{file:([^{}]*)\}", file_reference, value)
        return REFERENCE.sub(lambda match: references.get(match[1], match[0]), value)

    return convert(values)


def _input_references(inputs: Any) -> Iterator[tuple[str, str]]:
    for row in inputs if isinstance(inputs, list) else ():
        name = row.get("id") if isinstance(row, Mapping) else None
        if not isinstance(name, str):
            continue
        variable = "SHORTLIST_INPUT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
        default = row.get("default")
        is_usable = isinstance(default, str) and not re.search(r"[{}]", default)
        reference = f"${{{variable}:-{default}}}" if is_usable else f"${{{variable}}}"
        yield f"input:{name}", reference
