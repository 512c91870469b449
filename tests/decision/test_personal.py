"""Sentences to and about the user, where a tool keeps what people say and where none does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import shortlist
from shortlist import Engine, Tool
from shortlist.decision import Decider
from shortlist.decision.decider import PERSONAL, certain_basis
from shortlist.decision.personal import keeps_what_is_said
from shortlist.demo import load_catalog

ROOT = Path(shortlist.__file__).parent
MEMORY = [
    Tool("remember", "memory", "Store a new memory."),
    Tool("get_memory", "memory", "Retrieve a specific memory by ID or title."),
    Tool("list_memories", "memory", "List all stored memories."),
    Tool("delete_memory", "memory", "Delete a memory."),
]
SENTENCES = [
    "remember that Ann likes tea",
    "what did I tell you about my allergies?",
    "I prefer window seats. Remember that.",
    "forget what I said about my ex",
    "do you still know my partner's name?",
    "Merk dir bitte, dass ich kein Gluten vertrage",
    "my address changed, what you have is out of date: it's 4 Mill Lane",
    "what do you know about me?",
]
SMALL_TALK = ["haha, thank you so much, good night!", "ok, makes sense", "tell me a joke"]


@pytest.fixture(scope="module")
def with_memory() -> Engine:
    return Engine.from_tools([*load_catalog(), *MEMORY])


@pytest.mark.parametrize("tier", ["embed", "hybrid"])
def test_a_tool_that_keeps_what_is_said_is_offered(with_memory: Engine, tier: str) -> None:
    view = with_memory.view()
    found = {text: view.search(text, tier=tier, abstain=True) for text in SENTENCES}
    assert [text for text, selection in found.items() if selection.abstained] == []
    offered = [any(hit.tool.server == "memory" for hit in found[text].hits) for text in SENTENCES]
    assert sum(offered) >= len(SENTENCES) - 1


@pytest.mark.parametrize("text", SMALL_TALK)
def test_small_talk_gets_no_tool_beside_a_memory(with_memory: Engine, text: str) -> None:
    assert with_memory.view().search(text, tier="hybrid", abstain=True).abstained


def test_without_such_a_tool_nothing_changes() -> None:
    tools = [tool for tool in load_catalog() if not keeps_what_is_said(tool)]
    view = Engine.from_tools(tools).view()
    abstained = [view.search(text, tier="hybrid", abstain=True).abstained for text in SENTENCES]
    assert sum(abstained) >= len(SENTENCES) // 2


def test_the_sentences_of_the_fit_are_not_those_of_the_development_set() -> None:
    fitted, measured = (
        [json.loads(line) for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]
        for path in ("lab/training/requests/personal.jsonl", "lab/deciding/personal_requests.jsonl")
    )
    assert len(measured) == 60
    assert not {row["query"].casefold() for row in fitted} & {
        row["query"].casefold() for row in measured
    }
    servers = [
        {tool_id.rpartition("/")[0] for row in rows for tool_id in row["relevant"]}
        for rows in (fitted, measured)
    ]
    assert not servers[0] & servers[1]


def test_the_model_knows_nearly_all_sentences_of_the_development_set() -> None:
    from shortlist.models import load_encoder

    path = ROOT / "lab/deciding/personal_requests.jsonl"
    texts = [json.loads(line)["query"] for line in path.read_text(encoding="utf-8").splitlines()]
    model = Decider.bundled().personal
    assert model is not None
    vectors = load_encoder().encode(texts, query=True)
    assert float(np.mean(model(vectors) > 0)) > 0.9


@pytest.mark.parametrize(
    ("name", "description", "keeps"),
    [
        ("add_observations", "", True),
        ("readGraph", "Read the entire knowledge graph", True),
        ("create_note", "", True),
        ("get_user_profile", "", True),
        ("search", "Search what was stored as a memory", True),
        ("notebook_run", "Run a cell", False),
        ("list_invoices", "List the invoices of a customer", False),
        ("notify", "Send a notification", False),
    ],
)
def test_tools_that_keep_what_is_said(name: str, description: str, keeps: bool) -> None:
    assert keeps_what_is_said(Tool(name, "x", description)) is keeps


def test_both_are_needed(with_memory: Engine) -> None:
    hits = with_memory.search("which memories are stored", tier="hybrid").hits
    assert certain_basis("q", hits, {PERSONAL: 0.1}) == "personal"
    assert certain_basis("q", hits, {PERSONAL: -0.1}) is None
    assert certain_basis("q", hits) is None
    others = [hit for hit in hits if not keeps_what_is_said(hit.tool)]
    assert certain_basis("q", others, {PERSONAL: 0.1}) is None


def test_the_model_is_saved_and_dropped_with_another_encoder(tmp_path: Path) -> None:
    bundled = Decider.bundled()
    bundled.save(tmp_path / "decision.json")
    again = Decider.load(tmp_path / "decision.json")
    assert again.personal is not None
    assert again.for_engine(bundled.encoder, {}).personal is not None
    assert again.for_engine("other", {}).personal is None
