"""The task of `code_tokens` again, over the real servers. Run by `make test-long`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .code_tokens import measured


@pytest.mark.long
def test_a_script_takes_a_fiftieth_of_the_tokens(tmp_path: Path) -> None:
    try:
        before, after = (one.tokens for _, one in measured(tmp_path, install=True))
    except LookupError as missing:
        pytest.skip(str(missing))
    assert before >= 50 * after
