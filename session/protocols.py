"""The part of an engine that sessions use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..catalog import Catalog
from ..config import Config
from ..gating import State, Votes
from ..view import View


class Views(Protocol):
    """Makes the views of a session. `Engine` implements it."""

    @property
    def config(self) -> Config: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def tiers(self) -> tuple[str, ...]: ...
    def view(
        self, state: State, *, allowed: Iterable[str] | None = None, votes: Votes | None = None
    ) -> View: ...
    def after_call(self, state: State, tool_id: str) -> State: ...
