"""The README's figures are those that were measured."""

from __future__ import annotations

from pathlib import Path

import shortlist
from shortlist.lab.publishing.record import read_record

_README = Path(shortlist.__file__).parent / "README.md"


def test_the_figures_of_the_gateway_are_those_measured() -> None:
    result = read_record("gateway").result
    text = " ".join(_README.read_text(encoding="utf-8").split())
    found = result["definitions"]
    added = [one["added_p50_ms"] for one in result["call"].values()]
    assert (
        f"{found['tools']} tools of {found['servers']} servers from npm and PyPI cost "
        f"{found['tokens_behind']:,} tokens"
    ) in text
    assert f"and {found['tokens_shown']:,} behind the gateway: its own five tools" in text
    assert found["shown_directly"] == []
    slower = f"{round(max(added))} ms longer, a search {round(result['search']['added_p50_ms'])} ms"
    assert slower in text
