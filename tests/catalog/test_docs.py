"""The page on sources: its code runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shortlist

PAGE = Path(shortlist.__file__).parent / "docs" / "sources.md"
ALL_BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
)
#: `test_openapi_page` runs the one that sends requests.
BLOCKS = [block for block in ALL_BLOCKS if "operation.request" not in block]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_its_code_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, names)
    assert capsys.readouterr().out.splitlines() == [
        "billing/list_invoices",
        "skills/close-month -> First list the overdue invoices. Then write to the accountant.",
    ]
    engine = await names["load"]()
    assert [tool.id for tool in engine.catalog] == ["git/show_log"]


def test_it_lists_every_format():
    from shortlist.catalog.readers import READERS

    formats = PAGE.read_text("utf-8").partition("\n## If you write the server")[0]
    named = re.findall(r"^\| `(\w+)` \|", formats, re.MULTILINE)
    assert sorted(named) == sorted(reader.name for reader in READERS)
