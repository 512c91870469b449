from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.loaders.providers import PROVIDERS, provider_name

ANTHROPIC_LENGTH = PROVIDERS["anthropic"].name_length
OPENAI_LENGTH = PROVIDERS["openai"].name_length

ids = st.text(max_size=80) | st.text(alphabet="ab_-/ ", max_size=80)


@pytest.mark.parametrize(
    ("tool_id", "name"),
    [
        ("github/create_issue", "github__create_issue"),
        ("create-issue", "create-issue"),
        ("a/b/c", "a__b__c"),
        ("Maps/Find place", "Maps__Find--place"),
        ("my server/read-all rows", "my--server__read-all--rows"),
    ],
)
def test_plain_ids_stay_readable(tool_id, name):
    assert provider_name(tool_id) == name


@pytest.mark.parametrize(
    "tool_id",
    [
        "a__b",
        "a_/b",
        "a/_b",
        "a//b",
        "/a",
        "工具",
        "",
        "a" * 65,
        "a--b",
        "a  b",
        " a",
        "a- b",
        "a/ b",
    ],
)
def test_other_ids_keep_what_they_can_and_a_hash(tool_id):
    assert re.fullmatch(r"[A-Za-z0-9_-]+___[0-9a-f]{20}", provider_name(tool_id))


def test_the_hash_is_of_the_id_and_not_of_the_name_alone():
    assert provider_name("a" * 70) != provider_name("a" * 71)
    assert provider_name("a" * 70, ANTHROPIC_LENGTH) == "a" * 70


def test_an_id_cannot_be_made_to_take_the_name_of_another():
    taken = provider_name("bank/transfer.money")
    slug, _, digest = taken.partition("___")
    for forged in (taken, f"{slug}/_{digest}", f"{slug}_/{digest}", f"{slug}__/{digest}"):
        assert provider_name(forged) != taken


@settings(max_examples=300, deadline=None)
@given(
    pool=st.sets(ids, max_size=40),
    length=st.sampled_from([OPENAI_LENGTH, ANTHROPIC_LENGTH]),
)
def test_names_are_valid_and_no_two_ids_share_one(pool, length):
    names = {tool_id: provider_name(tool_id, length) for tool_id in pool}
    assert len(set(names.values())) == len(pool)
    for name in names.values():
        assert re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{length}}}", name)
