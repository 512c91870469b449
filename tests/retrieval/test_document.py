from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.catalog.tool_document import LEXICAL_FIELDS, embedding_text, lexical_document
from shortlist.retrieval import catalog_index

TOOL = Tool(
    "createPullRequest",
    "git-hub",
    "Opens a request to merge.",
    {
        "type": "object",
        "properties": {
            "baseBranch": {"type": "string", "description": "Where to merge into."},
            "state": {"enum": ["draft", "ready"]},
        },
    },
    title="New PR",
    tags=["git"],
)


def test_an_encoder_reads_name_server_description_and_parameter_names() -> None:
    assert embedding_text(TOOL) == (
        "create Pull Request (git hub): Opens a request to merge. Parameters: base Branch, state"
    )


def test_what_is_missing_leaves_no_trace() -> None:
    assert embedding_text(Tool("ping")) == "ping"
    assert embedding_text(Tool("ping", "net")) == "ping (net)"
    assert embedding_text(Tool("ping", description="Pings.")) == "ping: Pings."


def test_fields_hold_what_their_names_say() -> None:
    assert lexical_document(TOOL, ("name", "title", "server", "tags")) == {
        "name": "createPullRequest",
        "title": "New PR",
        "server": "git-hub",
        "tags": "git",
    }
    assert {"Where to merge into.", "draft"} <= {
        text for text in ("Where to merge into.", "draft") if text in LEXICAL_FIELDS["all"](TOOL)
    }
    assert "merge into" not in LEXICAL_FIELDS["text"](TOOL)


@given(st.text(max_size=40), st.text(max_size=200))
def test_every_field_of_any_tool_is_text(title: str, description: str) -> None:
    tool = Tool("x", "s", description, title=title)
    assert all(isinstance(read(tool), str) for read in LEXICAL_FIELDS.values())
    assert embedding_text(tool).startswith("x (s)")


@pytest.mark.parametrize(("pause_s", "fewest", "most"), [(0.005, 50, 50), (0.2, 1, 10)])
def test_long_pauses_of_a_build_are_followed_by_fewer(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, fewest: int, most: int
) -> None:
    """Behind many searching threads a pause lasts long: 250 of them took ten seconds."""
    pauses: list[float] = []
    monkeypatch.setattr(catalog_index, "sleep", pauses.append)
    monkeypatch.setattr(catalog_index, "perf_counter", lambda: len(pauses) * pause_s)
    monkeypatch.setattr(catalog_index, "thread_time", lambda: row * 1e-4)
    tools = [Tool(f"tool_{number}") for number in range(400)]
    documents = catalog_index.Documents(tools, ("name",), pauses=True)
    for row in range(len(tools)):
        assert documents[row]
    assert fewest <= len(pauses) <= most
