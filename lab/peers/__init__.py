"""Other tool retrievers behind one protocol, each through its public interface, for comparison."""

from __future__ import annotations

from .protocol import Peer
from .registry import NOT_OFFLINE, PEERS, load_peer

__all__ = ["NOT_OFFLINE", "PEERS", "Peer", "load_peer"]
