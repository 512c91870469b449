"""The published figures, for comparison.

Sadani and Kumar, "Tool Attention Is All You Need", arXiv:2604.21816, tables `main` and `ablation`:
a simulated testbed of 120 tools with generated schemas. Tokens and use of the context are counted
there; success is a projection from them and was not measured with a model, there or here.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A row of the paper's tables.

    Attributes:
        tokens: counted tokens of tools per turn.
        utilisation: at turn 30, counted; None in the table of ablations.
        success: per cent, a projection.
    """

    tokens: int
    utilisation: float | None
    success: float


MAIN = {
    "full": Published(47_312, 0.24, 72),
    "static": Published(11_865, 0.56, 58),
    "retrieval": Published(4_082, 0.78, 81),
    "discovery": Published(480, 0.94, 88),
    "two-phase": Published(2_368, 0.91, 94),
}
"""The arms of the paper's first table."""

ABLATIONS = {
    "two-phase": Published(2_368, None, 94.2),
    "no check": Published(2_368, None, 91.0),
    "no preconditions": Published(2_462, None, 90.6),
    "phase 1 alone": Published(4_820, None, 79.2),
    "encoder: better": Published(2_371, None, 94.6),
    "encoder: words": Published(2_410, None, 86.1),
    "k = 5": Published(1_320, None, 91.4),
    "k = 20": Published(4_190, None, 94.4),
    "theta = 0.15": Published(3_270, None, 93.9),
    "theta = 0.40": Published(1_480, None, 88.2),
}
"""The rows of the paper's ablation; better and words: MPNet and TF-IDF in place of MiniLM."""
