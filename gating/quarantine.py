"""Quarantine: the tools of a catalog version that need an operator's approval."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ..errors import RequestError
from ..retrieval.catalog_index import Index
from ..retrieval.refusal import Refusal
from .condition import Mask

if TYPE_CHECKING:
    from ..trust import Flag

_BY_OPERATOR = "quarantined_by_operator"
_WAITS_FOR_APPROVAL = "It waits for an operator's approval."


class Quarantine:
    """Quarantined tool ids; immutable. Models and events see fixed sentences only.

    Args:
        operator_reasons: id to an operator's reason, which only operators see. An id that is not in
            the catalog yet is quarantined when it is added.
        flags: id to the flag from `trust`, warnings included.

    Attributes:
        operator_reasons: the argument `operator_reasons`.
        flags: the argument `flags`.
        reasons: id to the reason, for operators.

    Raises:
        RequestError: `operator_reasons` is no mapping of ids to reasons.
    """

    __slots__ = ("_mask", "flags", "operator_reasons", "reasons")

    def __init__(
        self,
        operator_reasons: Mapping[str, str] | None = None,
        flags: Mapping[str, Flag] | None = None,
    ) -> None:
        reasons = {} if operator_reasons is None else operator_reasons
        if not isinstance(reasons, Mapping) or not all(
            isinstance(text, str) for pair in reasons.items() for text in pair
        ):
            raise RequestError("quarantined: a mapping of tool ids to reasons")
        self.operator_reasons: Mapping[str, str] = MappingProxyType(dict(reasons))
        self.flags: Mapping[str, Flag] = MappingProxyType(dict(flags or {}))
        sentences = {
            tool_id: flag.sentence
            for tool_id, flag in self.flags.items()
            if flag.level == "quarantine"
        }
        self.reasons: Mapping[str, str] = MappingProxyType(sentences | self.operator_reasons)
        self._mask: tuple[Index | None, Mask | None] = (None, None)

    def replaced(
        self,
        operator_reasons: Mapping[str, str] | None = None,
        flags: Mapping[str, Flag] | None = None,
    ) -> Quarantine:
        """A copy with other reasons, other flags, or both. Absent arguments stay as they are.

        Raises:
            RequestError: `operator_reasons` is no mapping of ids to reasons.
        """
        return Quarantine(
            self.operator_reasons if operator_reasons is None else operator_reasons,
            self.flags if flags is None else flags,
        )

    def mask(self, index: Index) -> Mask | None:
        """Rows of a catalog version that are not quarantined, shape (n,); None for all of them."""
        cached_for, mask = self._mask
        if cached_for is not index:
            rows = [index.rows[tool_id] for tool_id in self.reasons if tool_id in index.rows]
            mask = None
            if rows:
                mask = np.ones(len(index.tools), np.bool_)
                mask[rows] = False
            # Only one version is cached, because nearly all requests use the newest.
            self._mask = (index, mask)
        return mask

    def refusal(self, tool_id: str) -> Refusal | None:
        """The refusal of a quarantined tool: a code and a fixed sentence.

        None if it is not quarantined.
        """
        if tool_id not in self.reasons:
            return None
        code, sentence, public_id = _BY_OPERATOR, _WAITS_FOR_APPROVAL, ""
        flag = self.flags.get(tool_id)
        if flag is not None and flag.level == "quarantine":
            code, sentence = flag.code, flag.sentence
            if flag.is_about_id:
                # The server chose the id, and a model would read its instructions here.
                public_id = f"quarantined-{sha256(tool_id.encode()).hexdigest()[:12]}"
        return Refusal(tool_id, "quarantined", sentence, (), {"code": code}, public_id=public_id)
