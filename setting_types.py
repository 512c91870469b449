"""Types of settings as keyword arguments, so that a type checker finds a wrong one.

Generated from the settings' models: `python tests/test_setting_types.py` writes this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from .gating.rules import Gate
from .models.model_protocols import Encoder, Reranker
from .retrieval.backends.protocols import Fusion
from .retrieval.search.query_run import Strategy
from .settings import (
    DenseConfig,
    EncoderConfig,
    FusionConfig,
    LexicalConfig,
    RerankerConfig,
    Section,
)


class IndexSettings(TypedDict, total=False):
    """Settings of `IndexConfig`, which describes them."""

    example_queries: Sequence[Literal["library"] | str | Path]
    backend: Literal["memory", "postgres"]
    dsn: str | None
    tenant: str


class TrustSettings(TypedDict, total=False):
    """Settings of `TrustConfig`, which describes them."""

    scan: bool
    pins: str | Path | None
    approved: Sequence[str]


class SessionSettings(TypedDict, total=False):
    """Settings of `SessionConfig`, which describes them."""

    tier: str | Strategy | None
    k: int | None
    abstain: bool
    must_offer: bool
    pinned: Sequence[str]
    instructions: str
    pool_tokens: int
    turn_tokens: int
    list_tokens: int
    context_tokens: int
    pass_through: float
    summaries: str | Path | None
    events: str | Path | Callable[..., None] | None


class ConfigSettings(TypedDict, total=False):
    """Settings of `Config`, which describes them."""

    encoder: str | EncoderConfig | Mapping[str, Any] | Encoder
    reranker: str | RerankerConfig | Mapping[str, Any] | Reranker | None
    threads: int | None
    on_missing: Literal["error", "degrade"]
    lexical: LexicalConfig | Mapping[str, Any]
    dense: DenseConfig | Mapping[str, Any]
    fusion: FusionConfig | Mapping[str, Any] | Fusion
    tiers: Mapping[str, Section | Mapping[str, Any]] | Sequence[str]
    default_tier: str
    k: int
    index: Section | IndexSettings
    gate: Gate | Mapping[str, Any]
    trust: Section | TrustSettings
    abstention: str | Path
    abstention_loss: float | None
    session: Section | SessionSettings
