"""Names by which a script calls tools: a namespace for each server, a function for each tool."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from hashlib import sha256

from ..catalog import Catalog, Tool
from .python_types import TYPE_NAMES

#: Namespace of tools that belong to no server.
NO_SERVER = "tools"
#: Modules that a script may import; a namespace of the same name would hide them.
MODULES = frozenset(
    """asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools
    hashlib itertools json math os pathlib random re sys time tomllib typing unicodedata""".split()
)
#: A function of the sandbox that is no tool.
EXTRACT = "extract"
_TAKEN = (
    frozenset({EXTRACT})
    | MODULES
    | TYPE_NAMES
    | frozenset(dir(builtins))
    | frozenset(keyword.softkwlist)
)
_LETTERS = 60
_SEPARATORS = re.compile(r"\W+|_{3,}")
_COMPARED = 500


def identifier(name: str, *, taken: frozenset[str] = frozenset()) -> str:
    """A Python identifier for a name; a name that is one already stays.

    Args:
        name: of a tool, a server or an argument.
        taken: identifiers that are not free; they get an underscore behind.

    Example:
        >>> identifier("get-sum"), identifier("from"), identifier("2fa")
        ('get_sum', 'from_', 't2fa')
    """
    made = unicodedata.normalize("NFKC", name)
    if not (made.isidentifier() and made == name and not made.startswith("_")):
        made = _SEPARATORS.sub("_", made).strip("_")[:_LETTERS] or "t"
        if not made.isidentifier():
            made = f"t{made}"
        if not made.isidentifier():
            made = f"t{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    while keyword.iskeyword(made) or made in taken:
        made += "_"
    return made


def identifiers(names: Iterable[str], *, taken: frozenset[str] = frozenset()) -> dict[str, str]:
    """Name to identifier, no two the same; the order of the names does not matter.

    Where two names would get the same identifier, one that is an identifier keeps it, and each
    other gets a few digits of its hash behind.

    Args:
        names: distinct.
        taken: identifiers that are not free.
    """
    made = {name: identifier(name, taken=taken) for name in sorted(set(names))}
    counted = Counter(made.values())
    used = set(made.values())
    for name, given in made.items():
        if counted[given] < 2 or given == name:
            continue
        digits = sha256(name.encode("utf-8", "replace")).hexdigest()
        length = 4
        while (longer := f"{given}_{digits[:length]}") in used:
            length += 1
        made[name] = longer
        used.add(longer)
    return made


class ToolNames:
    """The names of all tools of one catalog version, permitted or not.

    They do not depend on what is permitted, so that a script that ran once still means the same
    tools after permissions changed.

    Args:
        catalog: the tools.
    """

    def __init__(self, catalog: Catalog) -> None:
        by_server: dict[str, list[Tool]] = {}
        for tool in catalog:
            by_server.setdefault(tool.server or NO_SERVER, []).append(tool)
        self._namespaces = identifiers(by_server, taken=_TAKEN)
        self._tools: dict[str, dict[str, Tool]] = {}
        self._methods: dict[str, tuple[str, str]] = {}
        for server, tools in by_server.items():
            namespace = self._namespaces[server]
            # Two tools of a server differ by name, or else by id.
            named = Counter(tool.name for tool in tools)
            keys = {t.id: t.name if named[t.name] == 1 else t.id for t in tools}
            methods = identifiers(keys.values(), taken=TYPE_NAMES)
            functions = self._tools.setdefault(namespace, {})
            for tool in tools:
                method = methods[keys[tool.id]]
                functions[method] = tool
                self._methods[tool.id] = namespace, method

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Of all servers."""
        return tuple(self._tools)

    def of(self, tool_id: str) -> tuple[str, str]:
        """Namespace and function of a tool of the catalog."""
        return self._methods[tool_id]

    def tool(self, namespace: str, function: str) -> Tool | None:
        """The tool that a function calls, permitted or not; None where there is none."""
        return self._tools.get(namespace, {}).get(function)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelled one most resembles; None if none does.

    Args:
        name: as written; only its beginning counts.
        known: of which some hundreds are compared.
    """
    compared = [one for one, _ in zip(known, range(_COMPARED), strict=False)]
    found = get_close_matches(name[:100], compared, n=1, cutoff=0.6)
    return found[0] if found else None
