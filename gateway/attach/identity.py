"""Which clients may share a gateway: those with the same configuration, values and version.

This runs in every process that attaches. So it reads the file without the readers of `ServerSpec`,
whose imports take longer than everything else here. References are resolved by the reader that the
gateway uses. It includes too much rather than too little: the environment that servers get, and the
value of each variable whose name occurs anywhere in the configuration.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import ShortlistError
from ..clients.config_file import ConfigFile
from ..clients.config_references import References, with_standard_references

_PACKAGE_FOLDER = Path(__file__).parents[2]
#: Folders of a checkout that no gateway runs.
_FOLDERS_NOT_RUN = frozenset({"tests", "docs", "evals", "build", "__pycache__"})
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_ENV_FILE_KEYS = frozenset({"envFile", "env_file"})
_RELATIVE_PATH = re.compile(r"(?:^|[=\s])\.{1,2}(?:[/\\]|$)")
#: Variables that the servers get, and others that the gateway or the servers' libraries read,
#: without being named in a file. The same program finds other programs on another PATH.
_IMPLICIT_VARIABLES = frozenset(
    "HOME USER LOGNAME PATH SHELL TERM PYTHONPATH "
    "PYTHON_KEYRING_BACKEND SSL_CERT_FILE SSL_CERT_DIR "
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy".split()
)
_IMPLICIT_PREFIXES = ("SHORTLIST_", "OTEL_", "ORT_", "HF_")
#: Set for the servers of a gateway. A gateway below another one is the same gateway.
_GATEWAY_MARK_VARIABLE = "SHORTLIST_GATEWAY"


@dataclass(frozen=True, slots=True)
class Identity:
    """A gateway that clients can share.

    Args:
        key: hash of all that the clients must have in common.
        config: absolute path of the file with the servers.
        settings: absolute path of the file of settings, if there is one.
        folder: working folder of the gateway.
    """

    key: str
    config: Path
    settings: Path | None
    folder: Path

    @classmethod
    def of(cls, config: Path, settings: Path | None) -> Identity:
        """The gateway of a configuration, with the environment of this process.

        The entries of the servers are not part of it, because a running gateway follows their
        changes. The settings of the gateway are.

        Raises:
            ConfigError: a file cannot be read, or the keyring cannot.
        """
        config = config.absolute()
        values = ConfigFile.read(config).values
        documents = [values]
        if settings is not None:
            settings = settings.absolute()
            documents.append(ConfigFile.read(settings).values)
        texts = sorted({text for document in documents for text in _all_texts(document)})
        uses_folder = any(map(_is_relative_path, texts))
        folder = Path.cwd() if uses_folder else config.parent
        parts = {
            "version": __version__,
            "python": [sys.executable, sys.version],
            "code": _source_files_hash(),
            "config": str(config),
            "settings": str(settings),
            "folder": str(folder),
            "own": [values.get("shortlist"), *documents[1:]],
            "variables": _relevant_variables(texts),
            "references": _resolved_references(documents, config),
        }
        text = json.dumps(parts, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        return cls(key=key, config=config, settings=settings, folder=folder)


def _all_texts(value: Any) -> Iterator[str]:
    """All texts of a document, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _all_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _all_texts(item)


def _is_relative_path(text: str) -> bool:
    """Whether a text names a file from the working folder on."""
    if _RELATIVE_PATH.search(text):
        return True
    try:
        Path(text).stat()
    except (OSError, ValueError):
        return False
    return bool(text) and not Path(text).is_absolute()


def _all_tables(value: Any) -> Iterator[Mapping[str, Any]]:
    """All tables of a document."""
    if isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from _all_tables(item)
    elif isinstance(value, list):
        for item in value:
            yield from _all_tables(item)


def _relevant_variables(texts: list[str]) -> dict[str, str]:
    """Environment variables that can change what the gateway does, or that its servers get."""
    named = {name for text in texts for name in _VARIABLE_NAME.findall(text)} | _IMPLICIT_VARIABLES
    return {
        name: value
        for name, value in os.environ.items()
        if name != _GATEWAY_MARK_VARIABLE and (name in named or name.startswith(_IMPLICIT_PREFIXES))
    }


def _resolved_references(documents: list[Any], file: Path) -> dict[str, str]:
    """Each reference to its value, and each env file to its content, as the gateway reads them."""
    home = Path.home()
    references = References(os.environ, home)
    tables = [table for document in documents for table in _all_tables(document)]
    inputs = [row for table in tables for row in _list(table.get("inputs"))]
    resolved: dict[str, str] = {}
    # `{env:NAME}` counts in every file, though it is a reference in those of one client only.
    for document in with_standard_references(documents, file, home, inputs, is_opencode=True):
        for text in _all_texts(document):
            for reference in _REFERENCE.findall(text):
                resolved[reference] = _value(references.expand, reference)
        for table in _all_tables(document):
            for key in _ENV_FILE_KEYS & table.keys():
                path = _value(references.expand_path, str(table[key]))
                resolved[f"{key} {path}"] = _file_hash(file.parent / path)
    return resolved


def _value(expand: Callable[[str], str], text: str) -> str:
    try:
        return expand(text)
    except ShortlistError as error:
        # The gateway says which server has no value. It may have one at the next start.
        return str(error)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _file_hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:
        return type(error).__name__


def _source_files_hash() -> str:
    """Hash of names, sizes and times of the package's files: an editable install can change."""
    files: list[tuple[str, int, int]] = []
    folders = [str(_PACKAGE_FOLDER)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _FOLDERS_NOT_RUN:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    status = entry.stat()
                    files.append((entry.path, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(files)).encode("utf-8", "surrogateescape")).hexdigest()
