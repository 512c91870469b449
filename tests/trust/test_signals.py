from __future__ import annotations

from shortlist.trust.languages import FOREIGN
from shortlist.trust.lexicon import CONNECTING, POINTED
from shortlist.trust.mentions import foreign_tools
from shortlist.trust.purpose import off_topic, own_call
from shortlist.trust.signals import SIGNALS

DERIVED = {
    "foreign_name",
    "foreign_tool",
    "several_tools",
    "ruled_tool",
    "off_topic",
    "off_topic_secret",
    "off_topic_file",
    "own_call",
}


def concepts(signal) -> set[str]:
    groups = [*signal.needs, signal.unless]
    return {name for group in groups for name in group.split("|") if name}


def test_every_signal_has_a_name_of_its_own_a_reason_and_a_weight():
    assert len({signal.name for signal in SIGNALS}) == len(SIGNALS)
    for signal in SIGNALS:
        assert signal.reason
        assert signal.needs
        assert 0 < signal.weight <= 1


def test_every_concept_that_is_needed_can_be_found_and_the_other_way_round():
    needed = set().union(*map(concepts, SIGNALS))
    assert needed - DERIVED <= POINTED.keys() | CONNECTING.keys()
    asked_by_purpose = {"path"}
    assert POINTED.keys() | CONNECTING.keys() <= needed | asked_by_purpose
    assert FOREIGN.keys() <= POINTED.keys() | CONNECTING.keys()


def test_every_signal_needs_more_than_connecting_words():
    for signal in SIGNALS:
        pointed = [set(group.split("|")) & (POINTED.keys() | DERIVED) for group in signal.needs]
        assert any(pointed), signal.name


def test_tools_of_others_are_told_from_parameters_and_own_ones():
    called = {"foreign_name", "foreign_tool"}
    assert foreign_tools("Call send_mail when done", frozenset()) == called
    assert foreign_tools("Call send_mail when done", frozenset({"send_mail"})) == frozenset()
    assert foreign_tools("created_at is a date", frozenset()) == {"foreign_name"}
    ruled = foreign_tools("The send_mail tool must have bcc", frozenset())
    assert ruled == called | {"ruled_tool"}
    both = foreign_tools("Use read_file and then send_mail", frozenset())
    assert both == called | {"several_tools"}


def test_a_purpose_decides_what_is_off_topic():
    assert off_topic({"secret_path"}, "add adds numbers") == {"off_topic"}
    assert off_topic({"secret_path"}, "ssh runs commands over ssh") == set()
    assert off_topic({"oblige"}, "add adds numbers") == set()


def test_values_to_choose_from_are_no_tools_that_are_called():
    assert foreign_tools("Operation type (add_text, delete_row, add_cell)", frozenset()) == set()
    called = foreign_tools("Call the tools (read_file, send_mail, post_text)", frozenset())
    assert "several_tools" in called


def test_what_comes_before_a_call_of_the_tool_itself_is_told_from_what_comes_before_others():
    assert own_call("before editing, read the page.", "edit_page edits a page")
    assert own_call("add_item has to be called before.", "check out")
    assert not own_call("before editing, read the page.", "add adds numbers")
    assert not own_call("before editing a file, call this.", "edit_page edits a page")
