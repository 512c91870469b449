"""The README's figures are those that were measured."""

from __future__ import annotations

from pathlib import Path

import shortlist
from shortlist.lab.publishing.record import read_record

_README = Path(shortlist.__file__).parent / "README.md"
_BY_WORDS = ("bm25s", "fastmcp-bm25", "haystack", "rank-bm25", "ratel-bm25")


def test_the_figures_of_the_gateway_are_those_measured() -> None:
    result = read_record("gateway").result
    text = " ".join(_README.read_text(encoding="utf-8").split())
    found = result["definitions"]
    added = [one["added_p50_ms"] for one in result["call"].values()]
    assert f"on {found['servers']} servers" in text
    assert f"{found['tools']} tools cost {found['tokens_behind']:,} tokens" in text
    assert f"and {found['tokens_shown']:,} behind the gateway" in text
    assert f"own five tools cost {found['tokens_own']}." in text
    assert found["shown_directly"] == ["mapbox__render_map_tool"]
    slower = f"{round(max(added))} ms longer, a search {round(result['search']['added_p50_ms'])} ms"
    assert slower in text


def test_the_hits_beside_the_clients_own_search_are_those_measured() -> None:
    rows = read_record("peers").result["rows"]
    found = {
        row["method"]: round(100 * row["recall@10"])
        for row in rows
        if row["set"] == "livemcpbench" and row["status"] == "ran"
    }
    by_words = [found[name] for name in _BY_WORDS]
    text = _README.read_text(encoding="utf-8")
    assert f"Five packages with BM25 find {min(by_words)} to {max(by_words)} %" in text
    assert text.count(f"| {found['shortlist hybrid']} % ") == 2
