"""Late interaction: texts compared token by token, as it is trained beside the encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

#: Length of a token's vector, where the states are longer.
TOKEN_DIM = 64
#: How much faster than the transformer the head learns, which starts from nothing.
HEAD_RATE = 10.0

_FILE = "tokens.safetensors"
"""Beside the transformer's own files; a folder without it starts with a new head."""


@dataclass(frozen=True, slots=True)
class PaddedTokens:
    """Tokens of n texts, padded to the longest.

    vectors: (n, longest, dim), of length 1; weights: (n, longest), summing to 1 over a text and 0
    where it is padded.
    """

    vectors: torch.Tensor
    weights: torch.Tensor


class TokenHead(torch.nn.Module):
    """The last layer's states to short unit vectors, and how much each token of a text counts.

    Args:
        width: of the states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(width, min(TOKEN_DIM, width), bias=False)
        self.weight = torch.nn.Linear(width, 1, bias=False)
        torch.nn.init.zeros_(self.weight.weight)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> PaddedTokens:
        """Vectors and weights for states (n, longest, width) and their mask (n, longest)."""
        vectors = torch.nn.functional.normalize(self.projection(states), dim=-1)
        shares = self.weight(states)[..., 0].masked_fill(~mask, -torch.inf)
        return PaddedTokens(vectors, torch.softmax(shares, dim=-1))

    def side_by_side(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """As `forward`, in one tensor (n, longest, dim + 1): the weights are in the last place."""
        tokens = self(states, mask)
        return torch.cat([tokens.vectors, tokens.weights.unsqueeze(-1)], dim=-1)

    @torch.no_grad()
    def start(self, states: torch.Tensor) -> None:
        """Begin with the principal directions of some states (n, width), about the origin."""
        unit = torch.nn.functional.normalize(states, dim=-1)
        directions = torch.linalg.eigh(unit.T @ unit).eigenvectors
        self.projection.weight.copy_(directions[:, -self.projection.out_features :].T)

    def load(self, folder: Path) -> bool:
        """Take up what `save` wrote there; whether it had written anything."""
        if not (folder / _FILE).exists():
            return False
        self.load_state_dict(load_file(folder / _FILE))
        return True

    def save(self, folder: Path) -> None:
        """Write the head beside the transformer."""
        save_file(self.state_dict(), folder / _FILE)


def late_interaction(queries: PaddedTokens, documents: PaddedTokens) -> torch.Tensor:
    """How well documents hold what queries ask for, token by token, (n, m), from -1 to 1.

    Each token of a query finds its best in the document, and they add up by their weights, as in
    `retrieval/features.py`.

    Args:
        queries: of n texts.
        documents: of m texts; their weights only tell where they are padded.
    """
    count, longest, dim = documents.vectors.shape
    flat = documents.vectors.reshape(count * longest, dim).T
    padding = documents.weights == 0
    rows = []
    for vectors, weights in zip(queries.vectors, queries.weights, strict=True):
        kept = weights > 0
        cosines = (vectors[kept] @ flat).view(-1, count, longest)
        rows.append(weights[kept] @ cosines.masked_fill(padding, -1.0).amax(dim=2))
    return torch.stack(rows)
