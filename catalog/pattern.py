"""Pattern: a glob over ids and names of tools, or over names of servers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Any

from ..errors import ConfigError

#: Characters of a pattern: an id, and room for the wildcards.
MAX_PATTERN_CHARS = 600
_WILD = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob: `*` any text, `?` one character, `[...]` one of a set.

    With a slash it is matched against a tool's id and against `server/name`, without one against
    its name on any server. A tool renamed because its id was taken (`server/name~2`) matches the
    same patterns as its namesake.

    A pattern that grants matches exactly. A pattern that denies ignores letter case and character
    width, see `fold`: the pattern is folded once, here, and the ids once for each catalog version.

    Attributes:
        folded: the folded text.

    Raises:
        ConfigError: it is not a text, empty, or too long.
    """

    text: str
    folded: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (
            not isinstance(self.text, str)
            or not self.text.strip()
            or len(self.text) > MAX_PATTERN_CHARS
        ):
            raise ConfigError(
                f"{self.text!r:.80} is no pattern: a glob of 1 to {MAX_PATTERN_CHARS} characters, "
                "such as 'search_*' or 'github/create_*'"
            )
        # Ids and names are held in NFC, see `Tool`.
        object.__setattr__(self, "text", unicodedata.normalize("NFC", self.text.strip()))
        object.__setattr__(self, "folded", fold(self.text))

    def matches_id(self, tool_id: str, *, folded: bool = False) -> bool:
        """Whether it matches a tool with this id that is no longer in the catalog."""
        form = fold if folded else str
        return (self.matches_ids(folded) and self.matches(form(tool_id), folded=folded)) or (
            self.matches_names and self.matches(form(tool_id.rpartition("/")[2]), folded=folded)
        )

    @property
    def matches_names(self) -> bool:
        """Whether it is matched against names."""
        return "/" not in self.text

    def matches_ids(self, folded: bool = False) -> bool:
        """Whether it is matched against ids; folding may make a slash of another character."""
        return "/" in (self.folded if folded else self.text)

    def matching_texts(self, texts: Collection[str], *, folded: bool = False) -> list[str]:
        """The texts that the glob matches. With `folded`, pass folded texts."""
        glob = self.folded if folded else self.text
        wild = _WILD.search(glob)
        if wild is None:
            return [glob] if glob in texts else []
        # What precedes the first wildcard rules out most texts at a fraction of the cost.
        start, match = glob[: wild.start()], _compiled(glob).match
        return [text for text in texts if text.startswith(start) and (match(text) or text == glob)]

    def matches(self, text: str, *, folded: bool = False) -> bool:
        """Whether the glob matches or equals a text. With `folded`, pass a folded text."""
        glob = self.folded if folded else self.text
        return text == glob or _compiled(glob).match(text) is not None

    def denies(self, text: str) -> bool:
        """Whether the glob matches a text exactly or folded."""
        return self.matches(text) or self.matches(fold(text), folded=True)


def any_grants(text: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs, which grant something, matches a text exactly.

    Raises:
        ConfigError: one is no pattern.
    """
    return any(_pattern(glob).matches(text) for glob in globs)


def any_denies(text: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs, which deny something, matches a text exactly or folded.

    Raises:
        ConfigError: one is no pattern.
    """
    return any(_pattern(glob).denies(text) for glob in globs)


def fold(text: str) -> str:
    """The text without differences of letter case and character width (NFKC, casefold, NFKC)."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def is_wild(text: str) -> bool:
    """Whether a text has a character that is a wildcard in a glob."""
    return _WILD.search(text) is not None


@lru_cache(maxsize=4_096)
def _pattern(glob: str) -> Pattern:
    return Pattern(glob)


@lru_cache(maxsize=4_096)
def _compiled(glob: str) -> re.Pattern[Any]:
    return re.compile(translate(glob))
