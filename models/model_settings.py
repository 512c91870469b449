"""Settings of the built-in encoders and rerankers."""

from __future__ import annotations

from pydantic import Field

from ..settings import PartSettings


class ThreadSettings(PartSettings):
    """Settings of a model that ships with the package.

    Args:
        threads: CPU threads for one call; None for the configuration's `threads`.
    """

    threads: int | None = Field(default=None, ge=1)


class NamedModelSettings(ThreadSettings):
    """Settings of a model that has to be named.

    Args:
        model: name or folder of the model.
    """

    model: str
