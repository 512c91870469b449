from __future__ import annotations

import json

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.cli.check_environment import _secrets
from shortlist.gateway.clients.client_config import read_client_config
from shortlist.gateway.connections.secret_store import secret_store

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


@pytest.fixture
def secrets_file(tmp_path, monkeypatch):
    path = tmp_path / "new" / "secrets.json"
    monkeypatch.setenv("SHORTLIST_SECRETS_FILE", str(path))
    return path


@pytest.mark.parametrize("passphrase", ["", "correct horse"])
def test_without_a_keyring_secrets_are_in_a_file(
    tmp_path, held, secrets_file, monkeypatch, passphrase
):
    monkeypatch.setenv("SHORTLIST_SECRETS_PASSPHRASE", passphrase)
    given("set", "MY_TOKEN", text=SECRET)
    given("set", "OTHER", text="other-VALUE")
    assert held == {}
    assert secrets_file.stat().st_mode & 0o777 == 0o600
    assert (SECRET in secrets_file.read_text()) == (not passphrase)
    config = tmp_path / "mcp.json"
    entry = {"command": "x", "env": {"KEY": "${keyring:MY_TOKEN}"}}
    config.write_text(json.dumps({"mcpServers": {"a": entry}}))
    assert read_client_config(config).servers[0].revealed_env() == {"KEY": SECRET}
    state = _secrets().summary
    assert str(secrets_file) in state
    assert state.endswith("encrypted" if passphrase else "not encrypted")
    given("delete", "MY_TOKEN")
    assert "shortlist secret set MY_TOKEN" in read_client_config(config).problems[0]
    assert "has no password for shortlist/MY_TOKEN" in given("delete", "MY_TOKEN", code=1)


def test_a_plain_file_is_encrypted_once_there_is_a_passphrase(tmp_path, secrets_file, monkeypatch):
    given("set", "MY_TOKEN", text=SECRET)
    (tmp_path / "passphrase").write_text("correct horse\n")
    monkeypatch.setenv("SHORTLIST_SECRETS_PASSPHRASE_FILE", str(tmp_path / "passphrase"))
    assert "encrypted from the next secret on" in _secrets().summary
    given("set", "OTHER", text="other-VALUE")
    assert SECRET not in secrets_file.read_text()
    assert secret_store().get("shortlist", "MY_TOKEN") == SECRET
    # Which is said, and not overwritten, without the passphrase or with another one.
    before = secrets_file.read_text()
    for text, problem in (("", "has no passphrase"), ("wrong", "the passphrase is wrong")):
        (tmp_path / "passphrase").write_text(text)
        assert problem in given("set", "OTHER", text="x", code=1)
    monkeypatch.delenv("SHORTLIST_SECRETS_PASSPHRASE_FILE")
    assert "is encrypted; set SHORTLIST_SECRETS_PASSPHRASE" in given("set", "A", text="x", code=1)
    assert secrets_file.read_text() == before


def test_a_file_that_others_may_read_or_that_is_damaged_is_refused(secrets_file):
    given("set", "MY_TOKEN", text=SECRET)
    secrets_file.chmod(0o640)
    assert "chmod 600" in given("set", "MY_TOKEN", text="x", code=1)
    assert _secrets().status == "fail"
    secrets_file.chmod(0o600)
    for text in ("[", "[" * 10_000, '{"format": 2}', '{"format": 1, "passwords": {"a": 5}}'):
        secrets_file.write_text(text)
        assert "is no file of secrets" in given("set", "MY_TOKEN", text="x", code=1)
