"""Where secrets and logins are kept: the system keyring, or a file that the user names.

A server or a container has no keyring. There, `SHORTLIST_SECRETS_FILE` names a file. It is
encrypted if `SHORTLIST_SECRETS_PASSPHRASE` or `SHORTLIST_SECRETS_PASSPHRASE_FILE` is set.

Every process that attaches imports this, so it imports the package `catalog` only for a file.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import ConfigError, MissingExtraError

#: Service of passwords without a service name, such as those of `shortlist secret set`.
DEFAULT_SERVICE = "shortlist"
FILE_VARIABLE = "SHORTLIST_SECRETS_FILE"
PASSPHRASE_VARIABLE = "SHORTLIST_SECRETS_PASSPHRASE"  # noqa: S105 - a name
PASSPHRASE_FILE_VARIABLE = "SHORTLIST_SECRETS_PASSPHRASE_FILE"  # noqa: S105
_MAX_FILE_BYTES = 16 * 1024 * 1024
_FORMAT = 1
#: Cost of scrypt: the advice of OWASP's password storage cheat sheet with 32 MB of memory.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**15, 8, 3
_SALT_BYTES = 16


def secret_store() -> SystemKeyring | SecretsFile:
    """The secret store that the environment of this process names.

    Raises:
        ConfigError: the variables contradict each other, or the passphrase cannot be read.
    """
    path = os.environ.get(FILE_VARIABLE)
    return SecretsFile(Path(path).expanduser(), _passphrase()) if path else SystemKeyring()


class SystemKeyring:
    """The keyring of the operating system, with the package `keyring`.

    Its methods raise `MissingExtraError` if the package is not installed, and `ConfigError` if the
    keyring is locked or this machine has none.
    """

    def get(self, service: str, user: str) -> str | None:
        """The password; None if there is none."""
        keyring = self.library()
        try:
            value: str | None = keyring.get_password(service, user)
        except Exception as error:  # noqa: BLE001 - back ends raise errors of their own libraries
            raise self._error("read", error) from None
        return value

    def set(self, service: str, user: str, password: str) -> None:
        """Store a password. It replaces one with the same name."""
        keyring = self.library()
        try:
            keyring.set_password(service, user, password)
        except Exception as error:  # noqa: BLE001 - as above
            raise self._error("written", error) from None

    def delete(self, service: str, user: str) -> None:
        """Delete a password. It is an error if there is none."""
        if self.get(service, user) is None:
            raise ConfigError(f"the keyring has no password for {service}/{user}")
        keyring = self.library()
        try:
            keyring.delete_password(service, user)
        except Exception as error:  # noqa: BLE001 - as above
            raise self._error("written", error) from None

    @staticmethod
    def library() -> Any:
        """The package `keyring`."""
        try:
            return importlib.import_module("keyring")
        except ImportError:
            raise MissingExtraError("the system keyring", "gateway") from None

    @staticmethod
    def _error(action: str, error: Exception) -> ConfigError:
        # Only the type of the error, because its text may quote the password.
        return ConfigError(
            f"the system keyring cannot be {action} ({type(error).__name__}); unlock it, use an "
            f"environment variable, or name a file in {FILE_VARIABLE}"
        )


class SecretsFile:
    """A file of passwords that only its owner may read.

    Its methods raise `ConfigError` if others may read the file, it cannot be read or written, or
    the passphrase does not fit.

    Args:
        path: the file; the first password creates it.
        passphrase: encrypts the file; None for a file in plain text.
    """

    def __init__(self, path: Path, passphrase: str | None = None) -> None:
        self.path = path.resolve()
        self.passphrase = passphrase

    def get(self, service: str, user: str) -> str | None:
        """The password; None if there is none."""
        return self._passwords(self.document()).get(service, {}).get(user)

    def set(self, service: str, user: str, password: str) -> None:
        """Store a password. It replaces one with the same name."""
        from ...catalog.text_file import locked

        with locked(self.path, error=ConfigError):
            document = self.document()
            passwords = self._passwords(document)
            passwords.setdefault(service, {})[user] = password
            self._write(passwords, document)

    def delete(self, service: str, user: str) -> None:
        """Delete a password. It is an error if there is none."""
        from ...catalog.text_file import locked

        with locked(self.path, error=ConfigError):
            document = self.document()
            passwords = self._passwords(document)
            if passwords.get(service, {}).pop(user, None) is None:
                raise ConfigError(f"{self.path}: has no password for {service}/{user}")
            self._write(passwords, document)

    def document(self) -> dict[str, Any]:
        """The JSON of the file, still encrypted; empty before the first password."""
        try:
            mode = self.path.stat().st_mode
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from None
        if os.name != "nt" and mode & 0o077:
            raise ConfigError(f"{self.path}: others may read it; run: chmod 600 {self.path}")
        from ...catalog.text_file import read_text_file

        text = read_text_file(self.path, _MAX_FILE_BYTES, error=ConfigError)
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise self._no_secrets()
        return document

    def _no_secrets(self) -> ConfigError:
        return ConfigError(
            f"{self.path}: is no file of secrets of this version; name another file in "
            f"{FILE_VARIABLE}"
        )

    def _passwords(self, document: dict[str, Any]) -> dict[str, dict[str, str]]:
        passwords = document.get("passwords", {})
        if "encrypted" in document:
            passwords = json.loads(self._decrypted(document))
        if not isinstance(passwords, dict) or not all(
            isinstance(users, dict) for users in passwords.values()
        ):
            raise self._no_secrets()
        return passwords

    def _decrypted(self, document: dict[str, Any]) -> bytes:
        if self.passphrase is None:
            raise ConfigError(
                f"{self.path}: is encrypted; set {PASSPHRASE_VARIABLE} or "
                f"{PASSPHRASE_FILE_VARIABLE}"
            )
        fernet = _cryptography("cryptography.fernet")
        try:
            salt = base64.b64decode(document["salt"], validate=True)
            key = _key(self.passphrase, salt)
            plain: bytes = fernet.Fernet(key).decrypt(document["encrypted"])
        except (fernet.InvalidToken, ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{self.path}: the passphrase is wrong, or the file is damaged"
            ) from None
        return plain

    def _write(self, passwords: dict[str, dict[str, str]], document: dict[str, Any]) -> None:
        if self.passphrase is None:
            content: dict[str, Any] = {"format": _FORMAT, "passwords": passwords}
        else:
            # The salt stays, so that a gateway derives the key once.
            salt_text = document.get("salt") or base64.b64encode(os.urandom(_SALT_BYTES)).decode()
            key = _key(self.passphrase, base64.b64decode(salt_text))
            fernet = _cryptography("cryptography.fernet").Fernet(key)
            encrypted = fernet.encrypt(json.dumps(passwords).encode()).decode()
            content = {"format": _FORMAT, "salt": salt_text, "encrypted": encrypted}
        from ...catalog.text_file import OWNER_ONLY_MODE, replace_text_file

        text = json.dumps(content, indent=1) + "\n"
        try:
            replace_text_file(self.path, [text], mode=OWNER_ONLY_MODE)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}") from None


def _passphrase() -> str | None:
    passphrase = os.environ.get(PASSPHRASE_VARIABLE)
    path = os.environ.get(PASSPHRASE_FILE_VARIABLE)
    if passphrase and path:
        raise ConfigError(f"set {PASSPHRASE_VARIABLE} or {PASSPHRASE_FILE_VARIABLE}, not both")
    if not path:
        return passphrase or None
    from ...catalog.text_file import read_text_file

    passphrase = read_text_file(Path(path).expanduser(), 1024 * 1024, error=ConfigError).strip()
    if not passphrase:
        raise ConfigError(f"{path}: has no passphrase; write one into it")
    return passphrase


@lru_cache(maxsize=4)
def _key(passphrase: str, salt: bytes) -> bytes:
    """The key of a passphrase. It takes a fifth of a second."""
    scrypt = _cryptography("cryptography.hazmat.primitives.kdf.scrypt")
    derived = scrypt.Scrypt(salt=salt, length=32, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P).derive(
        passphrase.encode()
    )
    return base64.urlsafe_b64encode(derived)


def _cryptography(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError("an encrypted file of secrets", "gateway") from None
