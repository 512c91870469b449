from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.catalog.tool_document import LEXICAL_FIELDS, embedding_text, lexical_document

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
