"""Passwords in the system keyring, with the package `keyring`."""

from __future__ import annotations

import importlib
from typing import Any

from ...errors import ConfigError, MissingExtraError

#: Service of passwords without a service name, such as those of `shortlist secret set`.
DEFAULT_KEYRING_SERVICE = "shortlist"


def keyring_password(service: str, user: str) -> str | None:
    """A password from the system keyring; None if it has none.

    Raises:
        MissingExtraError: the library `keyring` is not installed.
        ConfigError: the keyring is locked, or this machine has none.
    """
    keyring = _keyring_library()
    try:
        value: str | None = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001 - back ends raise errors of their own libraries
        raise _keyring_error("read", error) from None
    return value


def store_password(service: str, user: str, password: str) -> None:
    """Store a password in the system keyring. It replaces one with the same name.

    Raises:
        MissingExtraError: the library `keyring` is not installed.
        ConfigError: the keyring is locked, or this machine has none.
    """
    keyring = _keyring_library()
    try:
        keyring.set_password(service, user, password)
    except Exception as error:  # noqa: BLE001 - as above
        raise _keyring_error("written", error) from None


def delete_password(service: str, user: str) -> None:
    """Delete a password from the system keyring.

    Raises:
        MissingExtraError: the library `keyring` is not installed.
        ConfigError: the keyring has no such password, is locked, or this machine has none.
    """
    if keyring_password(service, user) is None:
        raise ConfigError(f"the keyring has no password for {service}/{user}")
    keyring = _keyring_library()
    try:
        keyring.delete_password(service, user)
    except Exception as error:  # noqa: BLE001 - as above
        raise _keyring_error("written", error) from None


def _keyring_library() -> Any:
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise MissingExtraError("the system keyring", "gateway") from None


def _keyring_error(action: str, error: Exception) -> ConfigError:
    # Only the type of the error, because its text may quote the password.
    return ConfigError(
        f"the system keyring cannot be {action} ({type(error).__name__}); "
        "unlock it, or use an environment variable"
    )
