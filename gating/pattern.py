"""Which tools a rule means: glob patterns over ids and names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Any

from ..errors import ConfigError

#: Characters of a pattern: an id, and room for the wildcards.
LIMIT = 600
_WILD = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob: `*` any text, `?` one character, `[...]` one of a set; letter case counts.

    With a slash it is held against a tool's id and against `server/name`, without one against its
    name on whatever server. A tool renamed because its id was taken (`server/name~2`) is meant by
    the same patterns as its namesake.

    Raises:
        ConfigError: no text, an empty or an overlong one.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip() or len(self.text) > LIMIT:
            raise ConfigError(
                f"{self.text!r:.80} is no pattern: a glob of 1 to {LIMIT} characters, "
                "such as 'search_*' or 'github/create_*'"
            )
        # Ids and names are held in NFC, see `Tool`.
        object.__setattr__(self, "text", unicodedata.normalize("NFC", self.text.strip()))

    def matches_id(self, tool_id: str) -> bool:
        """Whether it means the tool that had this id, judged without its definition."""
        return self.fits(tool_id if "/" in self.text else tool_id.rpartition("/")[2])

    def fitting(self, texts: Collection[str]) -> list[str]:
        """Those of the texts the glob fits."""
        wild = _WILD.search(self.text)
        if wild is None:
            return [self.text] if self.text in texts else []
        # What precedes the first wildcard rules out most texts at a fraction of the cost.
        start, match = self.text[: wild.start()], _compiled(self.text).match
        return [
            text for text in texts if text.startswith(start) and (match(text) or text == self.text)
        ]

    def fits(self, text: str) -> bool:
        """Whether the glob fits a text, or is that text."""
        return text == self.text or _compiled(self.text).match(text) is not None


@lru_cache(maxsize=4_096)
def _compiled(glob: str) -> re.Pattern[Any]:
    return re.compile(translate(glob))
