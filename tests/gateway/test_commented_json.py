from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.clients.config_file import plain_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": [1, 2,], /* , */ }', {"a": 1, "b": [1, 2]}),
        ('"// no comment /* here */"', "// no comment /* here */"),
        ('["a\\"// b", ",]",]', ['a"// b', ",]"]),
        ("[1 , /* x */ // y\n ]", [1]),
        ("/* é ü */ {}", {}),
    ],
)
def test_comments_and_trailing_commas(text, value):
    assert json.loads(plain_json(text)) == value
    assert len(plain_json(text)) == len(text)


@pytest.mark.parametrize(
    "text", ["[1,,]", "[,]", "{,,}", "[1 2,]", '{"a" 1,}', "/* open", '["a]', "nul,"]
)
def test_what_is_no_json_stays_none(text):
    with pytest.raises(json.JSONDecodeError):
        json.loads(plain_json(text))


@given(VALUES)
def test_plain_json_stays_as_it_is(value):
    for text in (json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        assert plain_json(text) == text


@given(st.text(alphabet='/*",\\[]{}a1: \n\r'))
def test_blanking_keeps_offsets_and_lines(text):
    plain = plain_json(text)
    assert len(plain) == len(text)
    assert all(new in (old, " ") for old, new in zip(text, plain, strict=True))
    assert [at for at, one in enumerate(plain) if one == "\n"] == [
        at for at, one in enumerate(text) if one == "\n"
    ]
