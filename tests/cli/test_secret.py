from __future__ import annotations

import json

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.gateway.clients.client_config import read_client_config

SECRET = "token-VALUE-4711"


class InMemory(KeyringBackend):
    """A keyring of the library that keeps passwords in this process."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.held.pop((service, username), None) is None:
            raise PasswordDeleteError(username)


@pytest.fixture(autouse=True)
def held():
    before, backend = keyring.get_keyring(), InMemory()
    keyring.set_keyring(backend)
    yield backend.held
    keyring.set_keyring(before)


def given(*arguments: str, text: str = "", code: int = 0) -> str:
    result = CliRunner().invoke(app, ["secret", *arguments], input=text)
    assert result.exit_code == code, result.output
    return result.output


def test_a_stored_secret_is_what_a_configuration_gets(tmp_path, held):
    output = given("set", "MY_TOKEN", text=f"{SECRET}\n")
    assert held == {("shortlist", "MY_TOKEN"): SECRET}
    assert "${keyring:MY_TOKEN}" in output
    assert SECRET not in output
    path = tmp_path / "mcp.json"
    entry = {"command": "x", "env": {"KEY": "${keyring:MY_TOKEN}"}}
    path.write_text(json.dumps({"mcpServers": {"a": entry}}))
    found = read_client_config(path)
    assert found.servers[0].revealed_env() == {"KEY": SECRET}
    assert SECRET not in repr(found)
    given("delete", "MY_TOKEN")
    missing = read_client_config(path)
    assert "shortlist secret set MY_TOKEN" in missing.problems[0]


def test_what_cannot_be_stored_is_an_error(held):
    assert "empty" in given("set", "MY_TOKEN", code=1)
    assert "letters" in given("set", "a/b", text="x", code=2)
    assert "no password for shortlist/MY_TOKEN" in given("delete", "MY_TOKEN", code=1)
    assert held == {}


def test_a_keyring_that_refuses_is_named_without_its_message(monkeypatch):
    def refuse(*_: str) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(keyring, "set_password", refuse)
    output = given("set", "MY_TOKEN", text=SECRET, code=1)
    assert "cannot be written (RuntimeError)" in output
    assert SECRET not in output
    monkeypatch.setattr(keyring, "get_password", refuse)
    output = given("delete", "MY_TOKEN", code=1)
    assert "cannot be read (RuntimeError)" in output
    assert SECRET not in output
