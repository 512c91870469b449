"""`shortlist secret`: secrets in the system keyring, for `${keyring:NAME}` in a configuration."""

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
    help="Store secrets in the system keyring.\n\nConfigurations use them as ${keyring:NAME}.",
)


@secret.command("set")
def set_secret(name: _NameArgument) -> None:
    """Store a secret in the system keyring.

    It is read from a hidden prompt, or from stdin if that is a pipe.
    """
    from ...gateway.connections.system_keyring import DEFAULT_KEYRING_SERVICE, store_password

    _check(name)
    if sys.stdin.isatty():
        value = typer.prompt(f"{name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read().rstrip("\r\n")
    if not value:
        raise ConfigError(f"secret {name}: the value is empty")
    store_password(DEFAULT_KEYRING_SERVICE, name, value)
    note(f"stored; write ${{keyring:{name}}} where the configuration needs it")


@secret.command("delete")
def delete_secret(name: _NameArgument) -> None:
    """Delete a secret from the system keyring."""
    from ...gateway.connections.system_keyring import DEFAULT_KEYRING_SERVICE, delete_password

    _check(name)
    delete_password(DEFAULT_KEYRING_SERVICE, name)
    note("deleted")


def _check(name: str) -> None:
    if not _SECRET_NAME.fullmatch(name):
        raise typer.BadParameter(f"NAME: letters, digits, '.', '_' and '-', not {name!r:.80}")
