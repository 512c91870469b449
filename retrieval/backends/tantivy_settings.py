"""Settings of the lexical index, apart from it: importing the index loads tantivy."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from ...catalog.tool_document import LEXICAL_FIELDS
from ...settings import PartSettings

#: Field to its weight in the BM25 sum; chosen on a development set of requests to real servers.
DEFAULT_BOOSTS: Mapping[str, float] = {"all": 1.0, "name": 0.1, "server": 0.4, "parameters": 0.2}


class TantivySettings(PartSettings):
    """Settings of the BM25 index.

    Args:
        boosts: field to its weight in the BM25 sum; a field not named is not searched.
    """

    boosts: dict[str, float] = Field(default_factory=lambda: dict(DEFAULT_BOOSTS))

    @field_validator("boosts")
    @classmethod
    def _known_fields(cls, boosts: dict[str, float]) -> dict[str, float]:
        if unknown := set(boosts) - set(LEXICAL_FIELDS):
            raise ValueError(
                f"no field {', '.join(sorted(unknown))}; use one of: {', '.join(LEXICAL_FIELDS)}"
            )
        if bad := [field for field, boost in boosts.items() if not 0 <= boost < float("inf")]:
            raise ValueError(f"the boost of {', '.join(bad)} is no finite number from 0")
        if not any(boosts.values()):
            raise ValueError("at least one field needs a boost above 0")
        return boosts
