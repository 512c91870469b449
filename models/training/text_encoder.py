"""The trainable encoder: a Hugging Face transformer, mean pooling, unit vectors.

It also returns vectors of the tokens, for late interaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from .late import PaddedTokens, TokenHead

#: Number of texts of similar length in one call: few on a CPU, where padding costs more than a
#: call, more on a GPU.
BUCKETS = {"cpu": 32, "cuda": 256}


class TextEncoder(torch.nn.Module):
    """Converts texts to unit vectors.

    Args:
        folder: a model in Hugging Face layout, safetensors and tokenizer.
        device: device of the model. The transformer runs in bfloat16 under autocast, on CPU and
            CUDA. Weights and pooling are in float32.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        super().__init__()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        # Eager attention: about a third faster than SDPA on a CPU in bfloat16 at these lengths.
        attention = "eager" if device.type == "cpu" else "sdpa"
        self.transformer: Any = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            attn_implementation=attention,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ).to(device)
        self.head = TokenHead(self.transformer.config.hidden_size).to(device)
        self.device = device
        #: Whether the folder had the head for tokens. Otherwise call `start_head`.
        self.head_loaded = self.head.load(folder)

    def forward(self, texts: Sequence[str], max_length: int) -> torch.Tensor:
        """Unit vectors (n, dim) of n texts, each cut to `max_length` tokens."""
        order, buckets = self._states(texts, max_length)
        return self._pooled(buckets)[order]

    def with_tokens(
        self, texts: Sequence[str], max_length: int
    ) -> tuple[torch.Tensor, PaddedTokens]:
        """The vectors of `forward`, and those of the tokens."""
        order, buckets = self._states(texts, max_length)
        longest = max(mask.shape[1] for _, mask in buckets)
        vectors, weights = [], []
        for hidden, mask in buckets:
            tokens = self.head(hidden, mask)
            margin = longest - mask.shape[1]
            vectors.append(torch.nn.functional.pad(tokens.vectors, (0, 0, 0, margin)))
            weights.append(torch.nn.functional.pad(tokens.weights, (0, margin)))
        found = PaddedTokens(torch.cat(vectors)[order], torch.cat(weights)[order])
        return self._pooled(buckets)[order], found

    @torch.inference_mode()
    def start_head(self, texts: Sequence[str], max_length: int) -> None:
        """Initialise the head for tokens with the principal directions of some texts' tokens."""
        _, buckets = self._states(texts, max_length)
        self.head.start(torch.cat([hidden[mask] for hidden, mask in buckets]))

    def _states(
        self, texts: Sequence[str], max_length: int
    ) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
        """Last layer and mask for groups of texts of similar length, and their order."""
        rows = self.tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        buckets: list[tuple[torch.Tensor, torch.Tensor]] = []
        size = BUCKETS[self.device.type]
        for start in range(0, len(order), size):
            bucket = [rows[row] for row in order[start : start + size]]
            width = len(bucket[-1])
            padded = [row + [self.tokenizer.pad_token_id] * (width - len(row)) for row in bucket]
            ids = torch.tensor(padded, device=self.device)
            lengths = torch.tensor([len(row) for row in bucket], device=self.device)
            mask = torch.arange(width, device=self.device)[None, :] < lengths[:, None]
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                hidden = self.transformer(
                    input_ids=ids, attention_mask=mask.long()
                ).last_hidden_state
            buckets.append((hidden.float(), mask))
        inverse = torch.empty(len(order), dtype=torch.long)
        inverse[torch.tensor(order)] = torch.arange(len(order))
        return inverse.to(self.device), buckets

    @staticmethod
    def _pooled(buckets: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        means = [
            (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
            for hidden, mask in buckets
        ]
        return torch.nn.functional.normalize(torch.cat(means), dim=-1)

    @torch.inference_mode()
    def encode(
        self,
        texts: Sequence[str],
        max_length: int,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Vectors (n, dim) without gradients; `progress` gets the number of texts done."""
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        vectors: list[NDArray[np.float32]] = []
        for start in range(0, len(order), 256):
            part = [texts[row] for row in order[start : start + 256]]
            vectors.append(self(part, max_length).cpu().numpy())
            if progress:
                progress(start + len(part))
        found = np.concatenate(vectors)
        result = np.empty_like(found)
        result[order] = found
        return result

    def save(self, folder: Path) -> None:
        """Write weights and tokenizer in Hugging Face layout, and the tokens' head."""
        self.transformer.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        self.head.save(folder)
