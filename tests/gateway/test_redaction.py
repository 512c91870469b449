from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.connections.masking import CredentialMask, redacted
from shortlist.gateway.connections.server_spec import ServerSpec

_SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=6, max_size=40)


@pytest.mark.parametrize(
    ("given_", "message", "expected"),
    [
        ({"env": {"KEY": "abc-123-def"}}, "bad key abc-123-def", "bad key ***"),
        ({"env": {"DEBUG": "1"}}, "port 1 is taken", "port 1 is taken"),
        ({"args": ("--api-key", "tiger77")}, "tiger77 is no key", "*** is no key"),
        ({"env": {"ROOT": "/home/ada/x"}}, "no file /home/ada/x/a", "no file /home/ada/x/a"),
        ({"env": {"ROOT": "/a1b2c3d4e5f6a7b8"}}, "no file /a1b2c3d4e5f6a7b8", "no file ***"),
        ({"env": {"LOG_LEVEL": "warning"}}, "warning: old", "warning: old"),
        ({"env": {"DB_PASS": "warning"}}, "refused warning", "refused ***"),
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


@pytest.mark.parametrize(
    ("entry", "answer", "expected"),
    [
        ({"env": {"API_TOKEN": "abc-123"}}, "you sent abc-123", "you sent ***"),
        ({"env": {"API_TOKEN": 'a"b-1234'}}, r'{"token": "a\"b-1234"}', '{"token": "***"}'),
        ({"env": {"DB": "postgres://u:pw-of-db@h/d"}}, "pw-of-db", "***"),
        ({"args": ("--api-key", "tiger77")}, "tiger77", "***"),
        ({"args": ("--password=tiger77",)}, "tiger77", "***"),
        # What belongs in answers stays.
        ({"env": {"ROOT": "/home/ada/project"}}, "/home/ada/project/a.py", None),
        ({"env": {"NODE_ENV": "production"}}, "in production", None),
        ({"env": {"SSH_KEY": "/home/ada/.ssh/key"}}, "/home/ada/.ssh/key.pub", None),
        ({"env": {"AUTH_MODE": "interactive"}}, "interactive", None),
        ({"args": ("/home/ada/project",)}, "/home/ada/project/a.py", None),
        ({"env": {"PAGE_TOKEN": "page"}}, "the next page", None),
    ],
)
def test_credentials_are_masked_in_answers_and_nothing_else(entry, answer, expected):
    mask = CredentialMask(ServerSpec(name="a", transport="stdio", command="x", **entry))
    assert mask.value({answer: [answer]}) == {expected or answer: [expected or answer]}


def test_credentials_of_headers_and_addresses_are_masked_in_answers():
    headers = {"Authorization": "Basic YWRhOnBhc3N3b3JkLTE=", "x-tenant": "acme-corp"}
    spec = ServerSpec(
        name="a", transport="http", url="https://u:pw-of-url@host/v1?key=k-1234567", headers=headers
    )
    mask = CredentialMask(spec)
    assert mask.text("Basic YWRhOnBhc3N3b3JkLTE= or password-1") == "*** or ***"
    assert mask.text("pw-of-url k-1234567 acme-corp /v1") == "*** *** acme-corp /v1"
    mask.add_header("Bearer of-a-login")
    assert mask.text("it was of-a-login") == "it was ***"
