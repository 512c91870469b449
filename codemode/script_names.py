"""Names of tools in scripts: a namespace for each server, a function for each tool."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from hashlib import sha256

from ..catalog import Tool
from .python_types import TYPE_NAMES

#: Namespace of tools without a server.
NAMESPACE_WITHOUT_SERVER = "tools"
#: Modules that a script may import; a namespace of the same name would hide them.
IMPORTABLE_MODULES = frozenset(
    """asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools
    hashlib itertools json math os pathlib random re sys time tomllib typing unicodedata""".split()
)
#: A function of the sandbox that is not a tool.
EXTRACT_NAME = "extract"
_RESERVED = (
    frozenset({EXTRACT_NAME})
    | IMPORTABLE_MODULES
    | TYPE_NAMES
    | frozenset(dir(builtins))
    | frozenset(keyword.softkwlist)
)
_MAX_IDENTIFIER_CHARS = 60
_SEPARATORS = re.compile(r"\W+|_{3,}")
_MAX_COMPARED_NAMES = 500


def identifier(name: str, *, reserved: frozenset[str] = frozenset()) -> str:
    """A Python identifier for a name. A name that is an identifier does not change.

    Args:
        name: name of a tool, a server or an argument.
        reserved: identifiers that are not free; they get an underscore behind.

    Example:
        >>> identifier("get-sum"), identifier("from"), identifier("2fa")
        ('get_sum', 'from_', 't2fa')
    """
    candidate = unicodedata.normalize("NFKC", name)
    if not (candidate.isidentifier() and candidate == name and not candidate.startswith("_")):
        candidate = _SEPARATORS.sub("_", candidate).strip("_")[:_MAX_IDENTIFIER_CHARS] or "t"
        if not candidate.isidentifier():
            candidate = f"t{candidate}"
        if not candidate.isidentifier():
            candidate = f"t{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    while keyword.iskeyword(candidate) or candidate in reserved:
        candidate += "_"
    return candidate


def identifiers(names: Iterable[str], *, reserved: frozenset[str] = frozenset()) -> dict[str, str]:
    """Name to a unique identifier. The order of the names does not matter.

    If two names would get the same identifier, a name that is an identifier keeps it. The others
    get a few digits of their hash at the end.

    Args:
        names: names without duplicates.
        reserved: identifiers that are not free.
    """
    identifier_of = {name: identifier(name, reserved=reserved) for name in sorted(set(names))}
    counts = Counter(identifier_of.values())
    used = set(identifier_of.values())
    for name, short_name in identifier_of.items():
        if counts[short_name] < 2 or short_name == name:
            continue
        digits = sha256(name.encode("utf-8", "replace")).hexdigest()
        length = 4
        while (longer := f"{short_name}_{digits[:length]}") in used:
            length += 1
        identifier_of[name] = longer
        used.add(longer)
    return identifier_of


class ToolNames:
    """The names of the tools of one catalog version, permitted or not.

    They do not depend on permissions, so that a script still calls the same tools after permissions
    change.

    Args:
        tools: the tools, with unique ids.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        by_server: dict[str, list[Tool]] = {}
        for tool in tools:
            by_server.setdefault(tool.server or NAMESPACE_WITHOUT_SERVER, []).append(tool)
        self._namespaces = identifiers(by_server, reserved=_RESERVED)
        self._tools_by_namespace: dict[str, dict[str, Tool]] = {}
        self._function_by_tool_id: dict[str, tuple[str, str]] = {}
        for server, server_tools in by_server.items():
            namespace = self._namespaces[server]
            # Two tools of a server may have the same name, but not the same id.
            name_counts = Counter(tool.name for tool in server_tools)
            keys = {t.id: t.name if name_counts[t.name] == 1 else t.id for t in server_tools}
            methods = identifiers(keys.values(), reserved=TYPE_NAMES)
            functions = self._tools_by_namespace.setdefault(namespace, {})
            for tool in server_tools:
                method = methods[keys[tool.id]]
                functions[method] = tool
                self._function_by_tool_id[tool.id] = namespace, method

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces of all servers."""
        return tuple(self._tools_by_namespace)

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._function_by_tool_id

    def function_of(self, tool_id: str) -> tuple[str, str]:
        """Namespace and function of a tool of the catalog."""
        return self._function_by_tool_id[tool_id]

    def tool_called(self, namespace: str, function: str) -> Tool | None:
        """The tool that a function calls, permitted or not; None if there is none."""
        return self._tools_by_namespace.get(namespace, {}).get(function)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The known name most similar to a misspelled one; None if none is similar.

    Args:
        name: the misspelled name; only its beginning is compared.
        names: the known names; only some hundreds are compared.
    """
    candidates = [
        candidate for candidate, _ in zip(names, range(_MAX_COMPARED_NAMES), strict=False)
    ]
    matches = get_close_matches(name[:100], candidates, n=1, cutoff=0.6)
    return matches[0] if matches else None
