from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from shortlist.errors import ConfigError
from shortlist.gateway.clients.config_references import References

HOME = Path("/home/ada")


@pytest.fixture
def keyring(monkeypatch) -> SimpleNamespace:
    """A keyring of one password; a test may replace what it answers."""
    stored = {("https://host/path", "ada"): "pass-VALUE"}
    module = ModuleType("keyring")
    module.get_password = lambda service, user: stored.get((service, user))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", module)
    return module  # type: ignore[return-value]


def test_a_password_from_the_keyring(keyring):
    references = References({}, HOME)
    assert references.expand("Bearer ${keyring:https://host/path/ada}!") == "Bearer pass-VALUE!"


def test_a_password_that_the_keyring_does_not_have(keyring):
    with pytest.raises(ConfigError, match="no password for s/u; store it: keyring set s u"):
        References({}, HOME).expand("${keyring:s/u}")
    with pytest.raises(ConfigError, match="no password for s; store it: shortlist secret set"):
        References({}, HOME).expand("${keyring:s}")
    for wrong in ("${keyring:}", "${keyring:s/}", "${keyring:/u}"):
        with pytest.raises(ConfigError, match="wrong keyring reference"):
            References({}, HOME).expand(wrong)


def test_a_secret_that_shortlist_stored_needs_a_name_only(keyring):
    keyring.get_password = lambda service, user: f"{service}-{user}-VALUE"
    assert References({}, HOME).expand("${keyring:GITHUB_TOKEN}") == "shortlist-GITHUB_TOKEN-VALUE"


def test_a_keyring_that_fails_is_named_without_its_message(keyring):
    def fail(service, user):
        raise RuntimeError("pass-VALUE")

    keyring.get_password = fail
    with pytest.raises(ConfigError, match=r"RuntimeError.*environment variable") as caught:
        References({}, HOME).expand("${keyring:s/u}")
    assert "VALUE" not in str(caught.value)


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[gateway\]'"):
        References({}, HOME).expand("${keyring:s/u}")


def test_a_file(tmp_path):
    (tmp_path / "key").write_text(" one\n")
    assert References({}, tmp_path).expand("a-${file:~/key}") == "a-one"
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        References({}, tmp_path).expand("${file:~/none}")
    (tmp_path / "large").write_text(" " * 1024 * 1024 + " ")
    with pytest.raises(ConfigError, match="larger than 1,048,576 bytes"):
        References({}, tmp_path).expand("${file:~/large}")


def test_the_home_directory():
    references = References({"A": "~/b"}, HOME)
    assert references.expand_path("~") == "/home/ada"
    assert references.expand_path("~/x") == "/home/ada/x"
    assert references.expand_path("${A}") == "/home/ada/b"
    assert references.expand_path("~bob/x") == "~bob/x"
    assert references.expand("~/x") == "~/x"


def test_an_env_file(tmp_path):
    lines = [
        "# comment",
        "export A='one $B'",
        'B = "two\\nlines # kept"  # comment',
        "C=${A}-$(id) # comment",
        "",
        "D=",
        "E='a",
        "b'",
        "F=x=y#z",
    ]
    (tmp_path / ".env").write_text("\n".join(lines))
    assert References({"A": "no"}, tmp_path).env_file("~/.env") == {
        "A": "one $B",
        "B": "two\nlines # kept",
        "C": "${A}-$(id)",
        "D": "",
        "E": "a\nb",
        "F": "x=y#z",
    }


@pytest.mark.parametrize("line", ["VALUE", 'A="VALUE', "=VALUE", "'A=VALUE"])
def test_a_wrong_line_of_an_env_file_is_named_without_its_text(tmp_path, line):
    (tmp_path / ".env").write_text(f"B=1\n# comment\n\n{line}\n")
    with pytest.raises(ConfigError, match="line 4 of the file is not NAME=") as caught:
        References({}, tmp_path).env_file("~/.env")
    assert "VALUE" not in str(caught.value)


def test_an_env_file_without_the_library(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("A=1")
    monkeypatch.setitem(sys.modules, "dotenv.parser", None)
    with pytest.raises(ConfigError, match=r"env file.*pip install '\.\[gateway\]'"):
        References({}, tmp_path).env_file("~/.env")
