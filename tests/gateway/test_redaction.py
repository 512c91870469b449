from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.connections.masking import redacted
from shortlist.gateway.connections.server_spec import ServerSpec

_SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=6, max_size=40)


@pytest.mark.parametrize(
    ("given_", "message", "expected"),
    [
        ({"env": {"KEY": "abc-123-def"}}, "bad key abc-123-def", "bad key ***"),
        ({"env": {"DEBUG": "1"}}, "port 1 is taken", "port 1 is taken"),
        ({"args": ("--api-key", "tiger77")}, "tiger77 is no key", "*** is no key"),
        ({"args": ("--port", "8080")}, "port 8080 is taken", "port 8080 is taken"),
    ],
)
def test_secrets_of_a_program_are_masked(given_, message, expected):
    assert redacted(message, ServerSpec(name="a", transport="stdio", command="x", **given_)) == (
        expected
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("401 for https://host:81/t/s3cr3t-1/mcp?key=abcdef", "401 for https://host:81/***?***"),
        ("user ada77 has no access", "user ada77 has no access"),
        ("refused pa55word", "refused ***"),
        ("refused Bearer of-this-one", "refused ***"),
        ("the token of-this-one is old", "the token *** is old"),
    ],
)
def test_secrets_of_an_address_and_of_headers_are_masked(message, expected):
    spec = ServerSpec(
        name="a",
        transport="http",
        url="https://ada77:pa55word@host:81/t/s3cr3t-1/mcp?key=abcdef",
        headers={"Authorization": "Bearer of-this-one"},
    )
    assert redacted(message, spec) == expected


@given(st.lists(_SECRETS, min_size=1, max_size=4), st.text(max_size=30), st.data())
def test_no_message_holds_a_secret(secrets, text, data):
    env = {f"KEY{at}": secret for at, secret in enumerate(secrets)}
    spec = ServerSpec(name="a", transport="stdio", command="x", env=env)
    parts = data.draw(st.lists(st.sampled_from([*secrets, text, " "]), max_size=8))
    message = redacted("".join(parts), spec)
    assert not any(secret in message for secret in secrets)
