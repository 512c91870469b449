"""Suggests ids for an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

from .tool import Tool

#: Ids offered for one that is not there.
NEAREST = 3
#: Ids compared letter by letter to find them, some 10 ms.
COMPARED = 2_000
_WORD = re.compile(r"[^\W_]+")


def nearest_ids(asked: str, tools: Sequence[Tool]) -> tuple[str, ...]:
    """Ids of the tools with the requested name, otherwise those with the most similar spelling.

    Args:
        asked: the requested id or name, of limited length.
        tools: the tools that may be suggested, preferred ones first.
    """
    name = asked.rpartition("/")[2]
    if named := [tool.id for tool in tools if tool.name == name]:
        return tuple(named[:NEAREST])
    ids: Iterable[str] = (tool.id for tool in tools)
    if len(tools) > COMPARED:
        words = [word for word in _WORD.findall(asked) if len(word) > 2][:8]
        ids = islice((id_ for id_ in ids if any(word in id_ for word in words)), COMPARED)
    spelt = {id_: id_ for id_ in ids}
    if "/" not in asked:
        spelt = {id_.rpartition("/")[2]: id_ for id_ in spelt} | spelt
    return tuple(dict.fromkeys(spelt[text] for text in get_close_matches(asked, spelt, n=NEAREST)))
