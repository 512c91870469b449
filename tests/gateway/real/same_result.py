"""Results of a tool made comparable: times and random ids are masked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_MASKED = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "TIME"),
    (
        r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d (\d\d:\d\d:\d\d )?\d{4}( \d\d:\d\d:\d\d)?",
        "TIME",
    ),
    (r"\b\d{1,2}:\d\d:\d\d( [AP]M)?", "TIME"),
    (r"\b[0-9a-f]{40}\b|\b[0-9a-f]{7}\b", "HASH"),
    # The gateway marks the processes that it starts.
    (r',\\n  \\"SHORTLIST_\w+\\": \\"[^"]*\\"', ""),
    # Its address of a server's resource.
    (r"shortlist://[^/\"]+/", ""),
    (r'(\\?"duration\\?":\s*)\d+', r"\1MS"),
)
#: Set anew by each server on the way, not by the tool.
_OWN_MARKS = ("io.modelcontextprotocol/serverInfo",)


def comparable(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result of `tools/call` with everything masked that differs from call to call."""
    kept = {key: value for key, value in result.items() if key not in ("resultType", "_meta")}
    kept["isError"] = bool(result.get("isError"))
    meta = {
        key: value for key, value in (result.get("_meta") or {}).items() if key not in _OWN_MARKS
    }
    if meta:
        kept["_meta"] = meta
    text = json.dumps(kept, ensure_ascii=False, sort_keys=True)
    for pattern, name in _MASKED:
        text = re.sub(pattern, name, text)
    return json.loads(text)
