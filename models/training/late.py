"""Late interaction, which compares texts token by token, for training with the encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

#: Most dimensions of a token's vector.
TOKEN_DIM = 64
#: Learning rate of the head, which is not pretrained, relative to that of the transformer.
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
    """Converts the last layer's states to short unit vectors and a weight for each token.

    Args:
        width: dimensions of the states.
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
        """Like `forward`, in one tensor (n, longest, dim + 1) with the weights last."""
        tokens = self(states, mask)
        return torch.cat([tokens.vectors, tokens.weights.unsqueeze(-1)], dim=-1)

    @torch.no_grad()
    def start(self, states: torch.Tensor) -> None:
        """Initialise with the principal directions of some states (n, width), without centring."""
        unit = torch.nn.functional.normalize(states, dim=-1)
        directions = torch.linalg.eigh(unit.T @ unit).eigenvectors
        self.projection.weight.copy_(directions[:, -self.projection.out_features :].T)

    def load(self, folder: Path) -> bool:
        """Load what `save` wrote. Returns whether there was a file."""
        if not (folder / _FILE).exists():
            return False
        self.load_state_dict(load_file(folder / _FILE))
        return True

    def save(self, folder: Path) -> None:
        """Write the head beside the transformer."""
        save_file(self.state_dict(), folder / _FILE)


def late_interaction(queries: PaddedTokens, documents: PaddedTokens) -> torch.Tensor:
    """Late-interaction scores of queries and documents, shape (n, m), from -1 to 1.

    The score is the weighted sum, over the query's tokens, of the best cosine to a token of the
    document, as in `retrieval/features.py`.

    Args:
        queries: tokens of n texts.
        documents: tokens of m texts. Of their weights only the padding is used.
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
