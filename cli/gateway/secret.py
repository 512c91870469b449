"""`shortlist secret`: stored secrets, for `${keyring:NAME}` in a configuration."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from ...errors import ConfigError
from ..console import note

_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the secret, as in ${keyring:NAME}.")
]

secret = typer.Typer(
    no_args_is_help=True,
    help="Store secrets, which configurations use as ${keyring:NAME}.\n\n"
    "They are in the system keyring, or in the file that SHORTLIST_SECRETS_FILE names.",
)


@secret.command("set")
def set_secret(name: _NameArgument) -> None:
    """Store a secret.

    It is read from a hidden prompt, or from stdin if that is a pipe.
    """
    from ...gateway.connections.secret_store import DEFAULT_SERVICE, secret_store

    _check(name)
    if sys.stdin.isatty():
        value = typer.prompt(f"{name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read().rstrip("\r\n")
    if not value:
        raise ConfigError(f"secret {name}: the value is empty")
    secret_store().set(DEFAULT_SERVICE, name, value)
    note(f"stored; write ${{keyring:{name}}} where the configuration needs it")


@secret.command("delete")
def delete_secret(name: _NameArgument) -> None:
    """Delete a secret."""
    from ...gateway.connections.secret_store import DEFAULT_SERVICE, secret_store

    _check(name)
    secret_store().delete(DEFAULT_SERVICE, name)
    note("deleted")


def _check(name: str) -> None:
    if not _SECRET_NAME.fullmatch(name):
        raise typer.BadParameter(f"NAME: letters, digits, '.', '_' and '-', not {name!r:.80}")
