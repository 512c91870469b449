"""Training through the rounding of the int8 export, so that it costs little when it is real."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Int8Linear(nn.Linear):
    """A linear layer that computes what ONNX Runtime's dynamic int8 does, with gradients.

    Weights are rounded to signed 8 bits with a step per output channel; activations to unsigned 8
    bits with a range per text, as texts are run one by one. Gradients pass the rounding unchanged
    (straight-through; Jacob et al., "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", CVPR 2018).
    """

    def forward(self, values: Tensor) -> Tensor:
        """Shape (batch, tokens, in) to (batch, tokens, out)."""
        return functional.linear(
            _rounded_activations(values), _rounded_weights(self.weight), self.bias
        )


def simulate_int8(transformer: nn.Module) -> None:
    """Make every linear layer an `Int8Linear`, in place; the weights stay as they are."""
    for module in transformer.modules():
        if type(module) is nn.Linear:
            module.__class__ = Int8Linear


def _rounded_weights(weight: Tensor) -> Tensor:
    step = weight.detach().abs().amax(dim=1, keepdim=True).clamp_min(1e-8) / 127
    return weight + ((weight / step).round() * step - weight).detach()


def _rounded_activations(values: Tensor) -> Tensor:
    seen = values.detach().float()
    axes = tuple(range(1, seen.dim()))
    low = seen.amin(dim=axes, keepdim=True).clamp_max(0)
    high = seen.amax(dim=axes, keepdim=True).clamp_min(0)
    step = ((high - low) / 255).clamp_min(1e-8)
    zero = (-low / step).round()
    rounded = (((seen / step).round() + zero).clamp(0, 255) - zero) * step
    return values + (rounded - seen).to(values.dtype)
