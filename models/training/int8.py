"""Activations rounded while training as dynamic int8 rounds them when deployed.

Of what dynamic int8 costs, nearly all comes from the inputs of the feed-forward layers: a few
channels are many times larger than the rest, and one scale for the whole tensor rounds the rest
coarsely. Training through that rounding (with gradients passed straight through) teaches the
network to live with it. Weights, with a scale for each channel, lose next to nothing.
"""

from __future__ import annotations

from typing import Any

import torch

_LEVELS = 255


class _Rounded(torch.autograd.Function):
    """One scale and zero point for a tensor, as ONNX Runtime's DynamicQuantizeLinear."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        exact = values.float()
        low, high = exact.amin().clamp(max=0), exact.amax().clamp(min=0)
        scale = ((high - low) / _LEVELS).clamp(min=torch.finfo(torch.float32).tiny)
        zero = torch.round(-low / scale)
        levels = (torch.round(exact / scale) + zero).clamp(0, _LEVELS)
        return ((levels - zero) * scale).to(values.dtype)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return gradients[0]


def rounded(values: torch.Tensor) -> torch.Tensor:
    """`values` rounded to 256 levels between their least and greatest; gradients pass through."""
    result: torch.Tensor = _Rounded.apply(values)  # type: ignore[no-untyped-call]
    return result


def _round_input(_module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return rounded(inputs[0])


def simulate_int8(transformer: torch.nn.Module) -> int:
    """Round the inputs of a BERT's feed-forward layers from now on.

    Returns:
        How many layers are rounded.
    """
    found = 0
    for name, module in transformer.named_modules():
        inward = name.endswith("intermediate.dense")
        outward = name.endswith("output.dense") and "attention" not in name
        if inward or outward:
            module.register_forward_pre_hook(_round_input)
            found += 1
    return found
