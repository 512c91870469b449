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

from ..catalog import Catalog, Tool
from .python_types import TYPE_NAMES

#: Namespace of tools without a server.
NO_SERVER = "tools"
#: Modules that a script may import; a namespace of the same name would hide them.
MODULES = frozenset(
    """asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools
    hashlib itertools json math os pathlib random re sys time tomllib typing unicodedata""".split()
)
#: A function of the sandbox that is not a tool.
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
    """A Python identifier for a name. A name that is an identifier does not change.

    Args:
        name: name of a tool, a server or an argument.
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
    """Name to a unique identifier. The order of the names does not matter.

    If two names would get the same identifier, a name that is an identifier keeps it. The others
    get a few digits of their hash at the end.

    Args:
        names: names without duplicates.
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

    They do not depend on permissions, so that a script still calls the same tools after permissions
    change.

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
            # Two tools of a server may have the same name, but not the same id.
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
        """Namespaces of all servers."""
        return tuple(self._tools)

    def of(self, tool_id: str) -> tuple[str, str]:
        """Namespace and function of a tool of the catalog."""
        return self._methods[tool_id]

    def tool(self, namespace: str, function: str) -> Tool | None:
        """The tool that a function calls, permitted or not; None if there is none."""
        return self._tools.get(namespace, {}).get(function)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to a misspelled one; None if none is similar.

    Args:
        name: the misspelled name; only its beginning is compared.
        known: the known names; only some hundreds are compared.
    """
    compared = [one for one, _ in zip(known, range(_COMPARED), strict=False)]
    found = get_close_matches(name[:100], compared, n=1, cutoff=0.6)
    return found[0] if found else None
