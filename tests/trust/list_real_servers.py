"""Lists the tools of installed MCP servers over stdio and writes one `tools/list` answer per file.

The dumps belong to their vendors and are not committed. `test_precision.py` reads them where
`SHORTLIST_REAL_SERVERS` names the folder.

    npm install --prefix /tmp/servers @sentry/mcp-server @upstash/context7-mcp
    python tests/trust/list_real_servers.py /tmp/dumps /tmp/servers/node_modules/.bin/sentry-mcp ...

Each further argument is one command line, quoted if it takes arguments.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_PATIENCE = 60
_FAKE = (
    "SENTRY_ACCESS_TOKEN NOTION_TOKEN GITHUB_PERSONAL_ACCESS_TOKEN FIGMA_API_KEY "
    "PRIVATE_APP_ACCESS_TOKEN MAPBOX_ACCESS_TOKEN ES_API_KEY JIRA_API_TOKEN CONFLUENCE_API_TOKEN"
).split()
_PLACES = {
    "JIRA_URL": "https://x.atlassian.net",
    "JIRA_USERNAME": "a@example.com",
    "CONFLUENCE_URL": "https://x.atlassian.net/wiki",
    "CONFLUENCE_USERNAME": "a@example.com",
    "ES_URL": "http://localhost:9200",
    "NO_UPDATE_NOTIFIER": "1",
}


def list_tools(command: str) -> list[dict[str, Any]]:
    """The tools of one server, all pages."""
    fake = dict.fromkeys(_FAKE, "pk.eyJ1IjoieCIsImEiOiJ4In0.x")
    process = subprocess.Popen(
        shlex.split(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **fake, **_PLACES},
    )
    timer = threading.Timer(_PATIENCE, process.kill)
    timer.start()

    def send(**message: Any) -> None:
        assert process.stdin
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    def answer(number: int) -> dict[str, Any]:
        assert process.stdout
        for line in process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # some servers log on stdout
            if isinstance(message, dict) and message.get("id") == number:
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError("the server ended or took too long")

    try:
        client = {"name": "list-tools", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        send(id=1, method="initialize", params=params)
        answer(1)
        send(method="notifications/initialized")
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        for number in range(2, 100):
            send(id=number, method="tools/list", params={"cursor": cursor} if cursor else {})
            page = answer(number)
            tools += page["tools"]
            if not (cursor := page.get("nextCursor")):
                break
        return tools
    finally:
        timer.cancel()
        process.kill()
        process.wait()


def main(out: Path, commands: list[str]) -> None:
    """Write one file for each server that answers."""
    out.mkdir(parents=True, exist_ok=True)
    for command in commands:
        words = shlex.split(command)
        name = re.sub(r"\W+", "-", Path(words[0]).name)
        try:
            tools = list_tools(command)
        except (OSError, EOFError, KeyError, BrokenPipeError) as error:
            sys.stderr.write(f"{name}: {error!r}\n")
            continue
        (out / f"{name}.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
        sys.stderr.write(f"{name}: {len(tools)} tools\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
