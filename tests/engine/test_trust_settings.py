"""The section `trust` of a configuration: what it refuses, and what it costs when off."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shortlist import Engine
from shortlist.errors import ConfigError


def test_settings_of_the_wrong_kind_are_config_errors() -> None:
    for wrong in ({"scan": "perhaps"}, {"approved": "fun/joke"}, {"pins": 3}, {"scans": True}):
        with pytest.raises(ConfigError, match=r"^trust\."):
            Engine.from_tools([], trust=wrong)


@pytest.mark.parametrize(("settings", "imported"), [({"scan": False}, False), ({}, True)])
def test_trust_is_imported_only_where_it_is_asked(
    settings: dict[str, bool], imported: bool
) -> None:
    program = (
        "import sys; from shortlist import Catalog, Engine, Tool; "
        f"Engine.from_tools([Tool('a')], tiers=['lexical'], trust={settings!r}); "
        f"assert ('shortlist.trust' in sys.modules) is {imported}"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
