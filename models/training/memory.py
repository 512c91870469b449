"""Negatives from all tools at once: their vectors as they were when last encoded.

Cross-batch memory (Wang et al. 2020): encoding every tool at every step is out of reach, but
vectors drift slowly, so the ones of earlier steps serve as negatives. Only the hardest of them
count, which puts pressure on tools that lie near everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .negatives import POSITIVE_SHARE


class ToolMemory:
    """The last known vector of each tool.

    Args:
        vectors: (n, dim), L2-normalised, of all tools.
        device: where the scores are computed.
    """

    def __init__(self, vectors: torch.Tensor, device: torch.device) -> None:
        self.vectors = vectors.to(device)

    def update(self, tools: Sequence[int], vectors: torch.Tensor) -> None:
        """Replace the vectors (m, dim) of the tools at m positions."""
        places = torch.tensor(tools, device=self.vectors.device)
        self.vectors[places] = vectors.detach()

    def scores(
        self,
        queries: torch.Tensor,
        ceiling: torch.Tensor,
        answers: Sequence[frozenset[int]],
        seen: Sequence[int],
        count: int,
    ) -> torch.Tensor:
        """Cosines (n, count) of queries to their hardest negatives, with gradients to the queries.

        Args:
            queries: (n, dim), L2-normalised.
            ceiling: (n,) cosine of each query to its farthest positive; what comes within
                `POSITIVE_SHARE` of it may be an unlabelled answer and is left out.
            answers: n sets of positions of tools that serve the query.
            seen: positions of tools that the batch holds anyway.
            count: negatives for each query.
        """
        cosines = queries @ self.vectors.T
        out = cosines.detach() > POSITIVE_SHARE * ceiling.detach()[:, None]
        out[:, list(seen)] = True
        for row, tools in enumerate(answers):
            out[row, list(tools)] = True
        return cosines.masked_fill(out, -1.0).topk(min(count, cosines.shape[1]), dim=1).values
