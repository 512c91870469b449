"""docs/clients.md names the files that `shortlist install` changes."""

from __future__ import annotations

import re
from pathlib import Path

import shortlist
from shortlist.gateway.clients.known_clients import CLIENTS

PAGE = (Path(shortlist.__file__).parent / "docs" / "clients.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| `([a-z0-9-]+)` \| (.+?) \| `(.+?)` \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE
)


def test_the_table_has_the_file_of_each_client_and_system() -> None:
    assert [row[0] for row in ROWS] == list(CLIENTS)
    for name, title, linux, *others in ROWS:
        client = CLIENTS[name]
        assert title == client.title
        assert client.paths(Path(), "linux")[0] == Path(linux)
        for system, cell in zip(("darwin", "win32"), others, strict=True):
            below = re.fullmatch(r"the same below `(.+)`", cell)
            path = linux.replace(".config", below[1], 1) if below else cell.strip("`")
            wanted = linux if cell == "the same" else path
            assert client.paths(Path(), system)[0] == Path(wanted), (name, system)
