"""Reduces the int8 loss: moves large activations into the weights.

Xiao et al., "SmoothQuant", ICML 2023: x W = (x / s) (s W) for any scale s of the inputs. Then all
channels of the activations have similar ranges and can share one scale. The result is the same
except for rounding, and most layers need one more elementwise product.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer

from .single import SingleLayer, SingleText

#: How much of the activations' range goes to the weights: s = max|x|^m / max|W|^(1 - m). Above the
#: paper's one half because the weights have a scale for each output channel, activations only one.
MIGRATION = 0.8
_LEAST = 1e-5


class _Scaled(torch.nn.Module):
    """A linear layer with inputs divided, and weights multiplied, by a scale."""

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


def smooth(
    text: SingleText, tokenizer: Tokenizer, texts: Sequence[str], *, max_length: int
) -> None:
    """Rescale the linear layers of an encoder in place.

    The layer after the attention is linear in the values, so the inverse scale goes into the rows
    of the values. The other layers get a product before them.

    Args:
        text: the encoder.
        tokenizer: tokenizer of the encoder.
        texts: texts to measure the ranges of the activations on.
        max_length: most tokens of a text.
    """
    reaches = _reaches(text, [tokenizer.encode(one).ids[:max_length] for one in texts])
    for layer in text.layers:
        assert isinstance(layer, SingleLayer)
        mixed = _scale(layer.mixed, reaches[layer.mixed])
        with torch.no_grad():
            layer.mixed.weight *= mixed
            layer.joined.weight[-layer.width :] /= mixed.unsqueeze(-1)
            layer.joined.bias[-layer.width :] /= mixed
        for name in ("joined", "up", "down"):
            linear = getattr(layer, name)
            setattr(layer, name, _Scaled(linear, _scale(linear, reaches[linear])))


def _scale(linear: torch.nn.Linear, reach: torch.Tensor) -> torch.Tensor:
    weights = linear.weight.detach().abs().amax(0)
    scale = reach.clamp(min=_LEAST) ** MIGRATION / weights.clamp(min=_LEAST) ** (1 - MIGRATION)
    return scale / scale.mean()


@torch.inference_mode()
def _reaches(
    text: SingleText, texts: Sequence[Sequence[int]]
) -> dict[torch.nn.Linear, torch.Tensor]:
    """The largest magnitude of each input channel of each linear layer, (width,)."""
    found: dict[torch.nn.Linear, torch.Tensor] = {}

    def watch(linear: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        assert isinstance(linear, torch.nn.Linear)
        reach = inputs[0].abs().flatten(0, -2).amax(0)
        found[linear] = torch.maximum(found.get(linear, torch.zeros_like(reach)), reach)

    linears = [one for one in text.modules() if isinstance(one, torch.nn.Linear)]
    hooks = [linear.register_forward_pre_hook(watch) for linear in linears]
    for ids in texts:
        text(torch.tensor([list(ids)]))
    for hook in hooks:
        hook.remove()
    return found
