"""The peers by name, and those that cannot run without a network."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import cast

from ...errors import ConfigError
from .protocol import Peer

PEERS = {
    "bm25s": "bm25s:Bm25s",
    "fastmcp-bm25": "fastmcp:FastMCPSearch",
    "haystack": "haystack:HaystackSearch",
    "minilm-cosine": "sentence_transformers:MiniLMCosine",
    "pydantic-ai": "pydantic_ai:PydanticAISearch",
    "rank-bm25": "rank_bm25:RankBm25",
    "ratel-bm25": "ratel:RatelBm25",
    "ratel-hybrid": "ratel:RatelHybrid",
    "ratel-semantic": "ratel:RatelSemantic",
}
"""Name of each peer that runs offline -> ``module:Class`` within this package."""

FRAMEWORKS = {
    "pydantic-ai": PEERS["pydantic-ai"],
    "pydantic-ai, shortlist": "frameworks:PydanticAIShortlist",
    "fastmcp-bm25": PEERS["fastmcp-bm25"],
    "fastmcp, shortlist": "frameworks:FastMCPShortlist",
    "langchain, shortlist": "frameworks:LangChainShortlist",
    "openai-agents, shortlist": "frameworks:OpenAIAgentsShortlist",
}
"""Searches through the interface of an agent framework: its own, then that of shortlist."""

NOT_OFFLINE = {
    "anthropic-tool-search": "hosted: ranks on the provider's side, for a paid request",
    "openai-tool-search": "hosted: ranks on the provider's side, for a paid request",
    "ratel-default-model": (
        "downloads its default embedding model; ratel-semantic and ratel-hybrid run the same "
        "engine on a local all-MiniLM-L6-v2"
    ),
}
"""Name of each peer that cannot run offline -> the reason, as the table shows it."""

PUBLISHED = {
    "livemcpbench": (
        "toolrank, 8B model",
        {"recall@5": 0.521},
        "its model has 8 billion parameters and a LoRA, on a GPU",
    ),
    "ironclaw": ("ironclaw's own", {"hit@1": 0.786}, "of the project that wrote the queries"),
    "mcpproxy_golden": (
        "mcpproxy's own BM25",
        {"recall@5": 0.681, "recall@10": 0.791},
        "of the project that wrote the queries",
    ),
}
"""Name of a set -> method, figures and origin, as its authors published them."""


def load_peer(name: str) -> Peer:
    """Build a peer by name, importing its library only now.

    Args:
        name: a key of `PEERS`.

    Raises:
        ConfigError: the name is not a peer, or names one that cannot run offline.
        MissingExtraError: the peer's library is not installed.
    """
    if name in NOT_OFFLINE:
        raise ConfigError(f"peer {name!r} cannot run offline: {NOT_OFFLINE[name]}")
    runnable = {**PEERS, **FRAMEWORKS}
    if name not in runnable:
        near = get_close_matches(name, runnable, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(runnable)}"
        raise ConfigError(f"no peer {name!r}; {hint}")
    module, _, attribute = runnable[name].partition(":")
    return cast("Peer", getattr(import_module(f".{module}", __package__), attribute)())
