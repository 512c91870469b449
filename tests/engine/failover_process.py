"""A process that writes a tenant's catalog, or searches it, until a file appears.

Arguments: `write` or `read`, the connection string, the tenant, the file of its results, and the
file that ends it. Each result is a line of JSON with the time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import IO

from shortlist import Engine, Tool
from shortlist.errors import StoreError

#: Tools of a version. All of them have the same number in their descriptions.
TOOLS = 10
SERVERS = 3


def version_of(tenant: str, server: str, number: int) -> list[Tool]:
    return [
        Tool(f"{tenant}_{place}", server, f"Sends letters of version {number} of {tenant}")
        for place in range(TOOLS)
    ]


def write(engine: Engine, tenant: str, lines: IO[str], end: Path) -> None:
    number = 0
    while not end.exists():
        number += 1
        server = f"{tenant}{number % SERVERS}"
        while not end.exists():
            try:
                engine.replace_server(server, version_of(tenant, server, number))
            except StoreError:
                time.sleep(0.02)
            else:
                row = {"at": time.time(), "server": server, "number": number}
                lines.write(json.dumps(row) + "\n")
                break
        time.sleep(0.05)


def read(engine: Engine, tenant: str, lines: IO[str], end: Path) -> None:
    while not end.exists():
        try:
            hits = engine.search("send letters", k=TOOLS * SERVERS).hits
        except StoreError as error:
            lines.write(json.dumps({"at": time.time(), "error": str(error)}) + "\n")
            time.sleep(0.02)
            continue
        row = {
            "at": time.time(),
            "tenants": sorted({hit.tool.name.partition("_")[0] for hit in hits}),
            "tools": [[hit.tool.server, int(hit.tool.description.split()[4])] for hit in hits],
        }
        lines.write(json.dumps(row) + "\n")
        time.sleep(0.05)


def main(kind: str, dsn: str, tenant: str, results: str, end: str) -> None:
    index = {"backend": "postgres", "dsn": dsn, "tenant": tenant}
    with (
        Path(results).open("w", buffering=1) as lines,
        Engine.connect(tiers=["lexical"], index=index) as engine,
    ):
        (write if kind == "write" else read)(engine, tenant, lines, Path(end))


if __name__ == "__main__":
    main(*sys.argv[1:])
