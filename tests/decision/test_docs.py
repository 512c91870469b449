"""What docs/deciding.md says, run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import shortlist
from shortlist.decision import Decider
from shortlist.decision.decider import MIN_TOOLS
from shortlist.decision.measurements import HITS_MEASURED

PAGE = (Path(shortlist.__file__).parent / "docs" / "deciding.md").read_text(encoding="utf-8")


def test_the_examples_run(capsys):
    names = {}
    for program in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(program, "docs/deciding.md", "exec"), names)
    reason, unjudged, dropped = capsys.readouterr().out.strip().splitlines()
    assert re.search(r"no tool fits: the probability that any does is 0\.\d+", reason)
    assert unjudged.startswith("only 2 tools are permitted")
    assert re.search(r"the best score is 0\.\d+, and tier 'hybrid' drops scores below 0.5", dropped)


def test_the_numbers_are_those_of_the_code():
    assert f"fewer than {MIN_TOOLS} tools are permitted" in PAGE
    assert f"the first {HITS_MEASURED} hits" in PAGE
    assert f"first {HITS_MEASURED} hits" in PAGE


def test_another_encoder_is_not_judged_and_told():
    decider = Decider.bundled().for_engine("another", {})
    assert set(decider.tiers) == {"lexical", "fast"}
    assert "was fitted to another encoder" in decider.unfit["hybrid"]


def test_the_setting_is_read():
    (declared,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert shortlist.Config(**tomllib.loads(declared)).abstention == "calibration.json"
