"""The table of the tokens that each format costs."""

from __future__ import annotations

import pytest

from shortlist.demo import load_catalog
from shortlist.errors import EvaluationError
from shortlist.lab.format_tokens import format_tokens
from shortlist.loaders.render import FORMATS, renderer_for


def test_formats_with_a_search_keep_their_list_and_read_less_than_all_tools() -> None:
    requests = ["post a message in slack", "read the feed of a page", "open an issue"]
    table, result = format_tokens(list(load_catalog()), requests)
    assert [row[0] for row in table.rows[2:]] == list(FORMATS)
    for style, figures in result["formats"].items():
        assert figures["last"] < result["all"]["openai"]
        assert figures["first"] > 0
        if renderer_for(style).search_kind is not None:
            assert figures["lists"] == 1
    with pytest.raises(EvaluationError, match="no requests"):
        format_tokens(list(load_catalog()), [])
