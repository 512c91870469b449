"""The pictures of the README and the docs: the page of a gateway in front of real servers.

`SHORTLIST_PICTURES=docs/pictures` with this test writes them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ..gateway.real.gateway_process import Setup, over_http
from ..gateway.real.servers import SERVERS, entries, fill
from .browser import chromium
from .pages import Page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.long
SHOWN = (
    "filesystem",
    "git",
    "time",
    "memory",
    "sqlite",
    "github",
    "sentry",
    "notion",
    "playwright",
)
OPERATOR = "token-of-the-operator"
#: Queries of a client, and the tool that it calls then.
WORK = (
    ("what time is it in Oslo", "time/get_current_time", {"timezone": "Europe/Oslo"}),
    ("which files changed since the last commit", "git/git_status", {"repo_path": "repo"}),
    ("how many people live in Bergen", "sqlite/list_tables", {}),
    ("remember that the report is due on Friday", "memory/read_graph", {}),
    ("write a note about the meeting", None, None),
    ("open the login page and take a screenshot", None, None),
    ("book a table for four tonight", None, None),
)


async def _work(address: str, folder: Path) -> None:
    async with (
        httpx2.AsyncClient(timeout=120) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        await client.list_tools()
        for query, tool, arguments in WORK:
            await client.call_tool("search_tools", {"query": query})
            if tool is not None:
                values = {k: str(folder / v) if "path" in k else v for k, v in arguments.items()}
                await client.call_tool("call_tool", {"name": tool, "arguments": values})


def test_pictures_of_a_gateway_with_real_servers(tmp_path: Path) -> None:
    pictures = Path(os.environ.get("SHORTLIST_PICTURES") or tmp_path)
    work = tmp_path / "work"
    fill(work)
    servers, missing = entries([one for one in SERVERS if one.name in SHOWN], work)
    if missing:
        pytest.skip("; ".join(missing))
    own = {"operator_token": OPERATOR}
    setup = Setup.write(tmp_path / "home", servers, own)
    with over_http(setup) as served:
        served.settle(180)
        page = Page(f"{served.address.removesuffix('mcp')}inspect/#{OPERATOR}")
        anyio.run(_work, served.address, work)
        while page.answer("overview")["encoded"] < 1:
            time.sleep(0.2)
        with chromium() as browser:
            _take_pictures(browser, page, pictures)


def _take_pictures(browser: Browser, page: Page, pictures: Path) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    tab.set_default_timeout(120_000)
    tab.goto(page.address)
    tab.fill("input.query", "find the open pull requests of a repository")
    tab.wait_for_selector(".tier:nth-child(2) .hit")
    tab.click(".tier:nth-child(2) .hit button")
    tab.wait_for_selector(".word")
    tab.evaluate("scrollTo(0, 0)")
    assert "github/" in tab.inner_text(".tier:nth-child(2) .hit .id")
    tab.screenshot(path=pictures / "inspect-search.png")
    tab.click('nav a[href="#conversations"]')
    tab.wait_for_selector(".event")
    tab.wait_for_selector("text=book a table for four tonight")
    tab.evaluate("scrollTo(0, 0)")
    tab.screenshot(path=pictures / "inspect-conversations.png")
