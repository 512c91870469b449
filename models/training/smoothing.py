"""Weights that dynamic int8 loses less of: large activations are moved into the weights.

Xiao et al., "SmoothQuant", ICML 2023: x W = (x / s) (s W) for any scale s of the inputs. One scale
a tensor then serves activations whose channels reach equally far. The same computation but for
rounding, and an elementwise product more before each group of linear layers.
"""

from __future__ import annotations

from collections import defaultdict
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

    def __init__(self, linear: torch.nn.Linear, scale: torch.Tensor, inverse: torch.nn.Parameter):
        super().__init__()
        self.inverse = inverse
        self.linear = torch.nn.Linear(linear.in_features, linear.out_features)
        with torch.no_grad():
            self.linear.weight.copy_(linear.weight * scale)
            self.linear.bias.copy_(linear.bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self.linear(inputs * self.inverse)
        return product


def smooth(transformer: Any, tokenizer: Any, texts: Sequence[str], *, max_length: int) -> None:
    """Rescale the linear layers of a transformer's encoder in place.

    Args:
        transformer: a Hugging Face encoder.
        tokenizer: its own, Hugging Face's.
        texts: that the ranges of the activations are taken from.
        max_length: tokens of a text that are read.
    """
    # Layers of one parent, such as query, key and value, read the same input.
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in transformer.encoder.named_modules():
        if isinstance(module, torch.nn.Linear):
            parent, _, own = name.rpartition(".")
            groups[parent].append(own)
    reach = _reach(transformer, tokenizer, texts, groups, max_length)
    for parent, names in groups.items():
        module = transformer.encoder.get_submodule(parent)
        layers = [getattr(module, name) for name in names]
        weights = torch.stack([layer.weight.detach().abs().amax(0) for layer in layers]).amax(0)
        scale = reach[parent].clamp(min=_LEAST) ** MIGRATION
        scale /= weights.clamp(min=_LEAST) ** (1 - MIGRATION)
        scale /= scale.mean()
        # One parameter for all, which the exported graph then applies once.
        inverse = torch.nn.Parameter(1 / scale)
        for name, layer in zip(names, layers, strict=True):
            setattr(module, name, _Scaled(layer, scale, inverse))


@torch.inference_mode()
def _reach(
    transformer: Any,
    tokenizer: Any,
    texts: Sequence[str],
    groups: dict[str, list[str]],
    max_length: int,
) -> dict[str, torch.Tensor]:
    """The largest magnitude of each input channel of each group, (width,)."""
    found: dict[str, torch.Tensor] = {}

    def watch(parent: str) -> Any:
        def seen(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            reach = inputs[0].abs().flatten(0, -2).amax(0)
            found[parent] = torch.maximum(found.get(parent, reach), reach)

        return seen

    hooks = [
        transformer.encoder.get_submodule(f"{parent}.{names[0]}").register_forward_pre_hook(
            watch(parent)
        )
        for parent, names in groups.items()
    ]
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
