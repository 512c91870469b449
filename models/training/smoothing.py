"""Weights that dynamic int8 loses less of: large activations are moved into the weights.

Xiao et al., "SmoothQuant", ICML 2023: x W = (x / s) (s W) for any scale s of the inputs. One scale
a tensor then serves activations whose channels reach equally far. The same computation but for
rounding, and an elementwise product more before each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

#: How much of the activations' range goes to the weights: s = max|x|^m / max|W|^(1 - m). Above the
#: paper's one half because the weights have a scale for each output channel, activations only one.
MIGRATION = 0.8
_LEAST = 1e-5
_BATCH = 32


class _Scaled(torch.nn.Module):
    """A linear layer whose inputs are divided and whose weights are multiplied by a scale."""

    def __init__(self, linear: torch.nn.Linear, scale: torch.Tensor) -> None:
        super().__init__()
        self.inverse = torch.nn.Parameter(1 / scale)
        self.linear = torch.nn.Linear(linear.in_features, linear.out_features)
        with torch.no_grad():
            self.linear.weight.copy_(linear.weight * scale)
            self.linear.bias.copy_(linear.bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self.linear(inputs * self.inverse)
        return product


def smooth(transformer: Any, tokenizer: Any, texts: Sequence[str], *, max_length: int) -> None:
    """Rescale the linear layers of an encoder in place.

    Args:
        transformer: a Hugging Face encoder.
        tokenizer: its own, Hugging Face's.
        texts: that the ranges of the activations are taken from.
        max_length: tokens of a text that are read.
    """
    encoder = transformer.encoder
    linear = [name for name, one in encoder.named_modules() if isinstance(one, torch.nn.Linear)]
    layers = [encoder.get_submodule(name) for name in linear]
    reaches = _reaches(transformer, tokenizer, texts, layers, max_length)
    for name, layer, reach in zip(linear, layers, reaches, strict=True):
        weights = layer.weight.detach().abs().amax(0)
        scale = reach.clamp(min=_LEAST) ** MIGRATION / weights.clamp(min=_LEAST) ** (1 - MIGRATION)
        parent, _, own = name.rpartition(".")
        setattr(encoder.get_submodule(parent), own, _Scaled(layer, scale / scale.mean()))


@torch.inference_mode()
def _reaches(
    transformer: Any,
    tokenizer: Any,
    texts: Sequence[str],
    layers: Sequence[torch.nn.Linear],
    max_length: int,
) -> list[torch.Tensor]:
    """The largest magnitude of each input channel of each layer, (width,)."""
    found = [torch.zeros(layer.in_features) for layer in layers]

    def watch(place: int) -> Any:
        def seen(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            found[place] = torch.maximum(found[place], inputs[0].abs().flatten(0, -2).amax(0))

        return seen

    hooks = [layer.register_forward_pre_hook(watch(place)) for place, layer in enumerate(layers)]
    ordered = sorted(texts, key=len)
    for start in range(0, len(ordered), _BATCH):
        batch = tokenizer(
            ordered[start : start + _BATCH],
            truncation=True,
            max_length=max_length,
            padding=True,
            return_tensors="pt",
        )
        transformer(**batch)
    for hook in hooks:
        hook.remove()
    return found
