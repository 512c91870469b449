"""The trainable cross-encoder: reads request and tool together, mean pooling, one logit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from .text_encoder import BUCKETS

_HEAD = "head.safetensors"
"""Beside the transformer's own files; a folder without it starts with a new head."""


class CrossEncoder(torch.nn.Module):
    """A model that scores pairs of texts.

    Args:
        folder: a transformer in Hugging Face layout, such as the encoder's, or what `save` wrote.
        device: device of the model. It runs in bfloat16 under autocast, with weights and pooling in
            float32.
        layers: number of first layers that are used; None for all.
        frozen: number of first layers that, like the embeddings, are not trained.
    """

    def __init__(
        self, folder: Path, device: torch.device, *, layers: int | None = None, frozen: int = 0
    ) -> None:
        super().__init__()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.transformer: Any = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            attn_implementation="eager" if device.type == "cpu" else "sdpa",
            add_pooling_layer=False,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **({} if layers is None else {"num_hidden_layers": layers}),
        )
        self.head = torch.nn.Linear(self.transformer.config.hidden_size, 1)
        torch.nn.init.normal_(self.head.weight, std=0.02)
        torch.nn.init.zeros_(self.head.bias)
        if (folder / _HEAD).exists():
            self.head.load_state_dict(load_file(folder / _HEAD))
        fixed = [self.transformer.embeddings, *self.transformer.encoder.layer[:frozen]]
        for part in fixed if frozen else ():
            part.requires_grad_(False)
        self.device = device
        self.to(device)

    def forward(
        self, queries: Sequence[str], documents: Sequence[str], max_length: int
    ) -> torch.Tensor:
        """Logits (n,) of n pairs, each cut to `max_length` tokens, the longer text first."""
        encoded = self.tokenizer(
            list(queries), list(documents), truncation=True, max_length=max_length
        )
        lengths = [len(row) for row in encoded["input_ids"]]
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        size = BUCKETS[self.device.type]
        parts: list[torch.Tensor] = []
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            batch = self.tokenizer.pad(
                {name: [values[row] for row in rows] for name, values in encoded.items()},
                return_tensors="pt",
            ).to(self.device)
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                hidden = self.transformer(**batch).last_hidden_state.float()
            mask = batch["attention_mask"].unsqueeze(-1)
            parts.append(self.head((hidden * mask).sum(1) / mask.sum(1))[:, 0])
        inverse = torch.empty(len(order), dtype=torch.long)
        inverse[torch.tensor(order, dtype=torch.long)] = torch.arange(len(order))
        return torch.cat(parts)[inverse.to(self.device)]

    @torch.inference_mode()
    def score(
        self, queries: Sequence[str], documents: Sequence[str], max_length: int
    ) -> NDArray[np.float32]:
        """Logits (n,) of n pairs without gradients."""
        parts = [
            self(queries[start : start + 256], documents[start : start + 256], max_length)
            for start in range(0, len(queries), 256)
        ]
        found: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
        return found

    def save(self, folder: Path) -> None:
        """Write transformer, tokenizer and head."""
        self.transformer.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        save_file(self.head.state_dict(), folder / _HEAD)
