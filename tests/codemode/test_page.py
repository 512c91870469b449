"""The example of the page runs as it stands, and gives what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import shortlist
from shortlist.gateway.profiles.gateway_settings import GatewaySettings
from shortlist.gateway.profiles.profile import Profile

PAGE = (Path(shortlist.__file__).parent / "docs" / "code-mode.md").read_text("utf-8")


def names_of(example: int) -> dict:
    """The variables after one example of the page."""
    block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[example]
    names: dict = {"__name__": "page"}
    exec(compile(block, "code-mode.md", "exec"), names)
    return names


def test_the_example_of_the_page(capsys):
    ran = names_of(0)["ran"]
    assert ran.error is None
    assert ran.value == ["created failure 0", "created failure 2"]
    assert len(ran.calls) == 12
    printed = capsys.readouterr().out
    assert "async def read_log(self,*,offset:int)->ReadLogResult:" in printed
    assert "'result': ['created failure 0', 'created failure 2']" in printed


def test_the_example_of_the_rules():
    names = names_of(1)
    days, [asked, flow] = names["ran"].value
    assert days == ["2026-03-01"]
    assert asked == "tickets.close: the call was not approved"
    assert "data from 'tickets' may not be sent to 'web'" in flow


def test_the_settings_of_the_rules_are_settings():
    block = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[-1]
    made = GatewaySettings.make(json.loads(block)["shortlist"])
    intern = Profile.of(made, "intern", made.profile("intern"))
    assert intern.has_run_code
    assert intern.extract_command == "my-model --json"
    assert [one.tools for one in intern.grants if one.decision == "deny"] == ["*/delete*", "mail/*"]
    assert not Profile.of(made, "guest", made.profile("guest")).has_run_code
