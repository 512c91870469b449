"""The most useful line of a server's stderr since a given time."""

from __future__ import annotations

import re

from .logs import log_path
from .redaction import redacted
from .server_spec import ServerSpec

_TELLING = re.compile(
    r"error|exception|fail|requir|missing|invalid|cannot|not found|denied", re.IGNORECASE
)
_LENGTH, _READ = 200, 100_000


class LogTail:
    """The part of a server's log that is written from now on.

    Args:
        spec: the server.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._path = log_path(spec.name)
        self._from = self._path.stat().st_size if self._path.exists() else 0

    def reason(self) -> str:
        """The last line about an error, otherwise the last line; "" if there is none.

        Secrets of the configuration and terminal control characters are removed.
        """
        if not self._path.exists():
            return ""
        with self._path.open("rb") as file:
            size = self._path.stat().st_size
            # A log that is smaller than before was started again.
            begin = self._from if size >= self._from else 0
            file.seek(max(begin, size - _READ))
            text = file.read().decode("utf-8", "backslashreplace")
        lines = [line for line in map(_cleaned, text.splitlines()) if re.search(r"[^\W\d_]", line)]
        telling = [line for line in lines if _TELLING.search(line)]
        return redacted((telling or lines or [""])[-1], self._spec)[:_LENGTH]


def _cleaned(line: str) -> str:
    without_colours = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)
    return "".join(one for one in without_colours if one.isprintable()).strip()
