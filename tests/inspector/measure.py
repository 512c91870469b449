"""Measures the page: first paint with 5,000 tools, a search, and 10,000 events.

`python -m shortlist.tests.inspector.measure`
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from shortlist import Tool
from shortlist.tests.inspector.browser import chromium
from shortlist.tests.inspector.pages import inspecting, save_index
from shortlist.tests.inspector.test_page_in_chromium import (
    QUERIES,
    demo_tools,
    events,
    show,
    write_events,
)

_LONG_TASKS = """
window.__tasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.__tasks.push(entry.duration);
}).observe({ type: "longtask", buffered: true });
"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_ROUNDS = 5


def main() -> None:
    """Measure, and print the figures as JSON."""
    tools = [
        Tool(f"{tool.name}_{copy}", f"{tool.server}{copy}", tool.description, tool.input_schema)
        for copy in range(42)
        for tool in demo_tools()
    ][:5_000]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_index(folder / "index", tools, tiers=["lexical", "fast"], default_tier="fast")
        write_events(folder / "events.jsonl", events(10_000, [tool.id for tool in tools]))
        options = ("--index", str(folder / "index"), "--events", str(folder / "events.jsonl"))
        with inspecting(folder, *options) as page, chromium() as browser:
            paints, beyond = [], []
            for _ in range(_ROUNDS):
                tab = browser.new_page(viewport={"width": 1280, "height": 800})
                tab.set_default_timeout(120_000)
                tab.add_init_script(_LONG_TASKS)
                tab.goto(page.address)
                tab.wait_for_selector("input.query")
                paints.append(tab.evaluate(_PAINT))
                for query in QUERIES:
                    with tab.expect_response("**/api/search?*") as response:
                        tab.fill("input.query", query)
                    tab.wait_for_selector(".hit")
                    tab.wait_for_timeout(300)
                    engine = sum(tier["total_ms"] for tier in response.value.json()["tiers"])
                    whole = float(tab.get_attribute("[data-ms]", "data-ms") or "nan")
                    beyond.append(whole - engine)
                tab.evaluate("window.__tasks.length = 0")
                show(tab, "conversations")
                tab.wait_for_selector('.event[aria-setsize="10000"]')
                for place in range(0, 460_000, 20_000):
                    tab.locator(".timeline").evaluate(
                        "(node, place) => { node.scrollTop = place; }", place
                    )
                    tab.wait_for_timeout(30)
                stalls = tab.evaluate("window.__tasks")
                tab.close()
    json.dump(
        {
            "tools": len(tools),
            "first_paint_ms": {"median": statistics.median(paints), "most": max(paints)},
            "search_beyond_engine_ms": {"median": statistics.median(beyond), "most": max(beyond)},
            "longest_task_with_10000_events_ms": max(stalls, default=0),
        },
        sys.stdout,
        indent=1,
    )


if __name__ == "__main__":
    main()
