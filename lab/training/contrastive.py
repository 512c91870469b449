"""The contrastive loss: InfoNCE in both directions over all pairs of a batch."""

from __future__ import annotations

import torch

#: Score of ignored pairs, low enough to have no effect in a softmax.
_OUT = -1e4


def _one_way(scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
    """Mean log-probability of the positive pairs against the negatives of their row.

    Other positives of the row are not in the denominator, so that positives do not compete.
    """
    against = scores.masked_fill(positive, _OUT)
    negatives = torch.logsumexp(against, dim=1, keepdim=True)
    losses = torch.nn.functional.softplus(negatives - scores)
    weights = positive.float() / positive.sum(1, keepdim=True).clamp(min=1)
    return (losses * weights).sum() / positive.any(1).sum().clamp(min=1)


def contrastive_loss(
    cosines: torch.Tensor, positive: torch.Tensor, ignored: torch.Tensor, temperature: float
) -> torch.Tensor:
    """Symmetric InfoNCE (van den Oord et al. 2018) with several positives for each query.

    Args:
        cosines: cosines of n queries and m documents, shape (n, m).
        positive: (n, m) bool, pairs that belong together.
        ignored: (n, m) bool, pairs that are neither positive nor negative.
        temperature: divisor of the cosine; 0.05 as in the stock encoder's training.

    Returns:
        A scalar, the mean of the query-to-document and document-to-query losses.
    """
    scores = (cosines / temperature).masked_fill(ignored, _OUT)
    return (_one_way(scores, positive) + _one_way(scores.T, positive.T)) / 2
