"""Long results: what is shown and what is read on together are the whole text."""

from __future__ import annotations

import re

import mcp.types as types
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.gateway.profiles.long_results import (
    ResultLimits,
    ResultMemory,
    ResultSource,
    SessionResults,
)


@settings(deadline=None)
@given(length=st.integers(1, 60_000), limit=st.integers(100, 12_000))
def test_the_beginning_and_the_parts_read_on_are_the_whole_text(length: int, limit: int) -> None:
    text = "".join(f"{at} " for at in range(length))[:length]
    results = SessionResults(ResultMemory())
    given = types.CallToolResult(content=[types.TextContent(type="text", text=text)])
    limits = ResultLimits(limit, media_bytes=0)
    given_back = results.shorten(given, ResultSource(("one/tool",), "permission"), limits)
    parts = [part.text for part in given_back.content]
    if parts == [text]:
        return
    name = re.search(r'"id": "(\w+)"', parts[1])
    read = parts[0]
    while not read.endswith("\n[end of the result]"):
        part = results.read(name[1], max_chars=limits.part_chars, may_read=lambda *_: True)
        read = re.sub(r"\n\[[\d,]+ characters left\]$", "", read) + part
    assert read.removesuffix("\n[end of the result]") == text
