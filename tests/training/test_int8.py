from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from shortlist.models.training.int8 import Int8Linear, simulate_int8  # noqa: E402


def _layer(weights: list[list[float]]) -> Int8Linear:
    layer = Int8Linear(len(weights[0]), len(weights), bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights))
    return layer


def test_activations_are_rounded_as_dynamic_quantisation_rounds_them() -> None:
    values = torch.tensor([[[-1.0, 0.0, 0.004], [1.0, 1.55, 0.3]]])
    step = 2.55 / 255
    found = _layer([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])(values)
    torch.testing.assert_close(found, torch.round(values / step) * step, atol=1e-6, rtol=0)


def test_each_text_has_a_range_of_its_own() -> None:
    layer = _layer([[1.0, 0.0], [0.0, 1.0]])
    small, large = torch.tensor([[[0.1, 0.033]]]), torch.tensor([[[100.0, -50.0]]])
    torch.testing.assert_close(layer(torch.cat([small, large]))[:1], layer(small))


def test_weights_have_127_steps_a_channel() -> None:
    layer = _layer([[127.0, 1.4], [1.27, 0.013]])
    found = layer(torch.tensor([[[0.0, 1.0]]]))
    torch.testing.assert_close(found, torch.tensor([[[1.0, 0.01]]]))


def test_gradients_pass_the_rounding() -> None:
    layer = _layer([[0.5, -0.25]])
    values = torch.tensor([[[1.0, 2.0]]], requires_grad=True)
    layer(values).sum().backward()
    torch.testing.assert_close(values.grad, torch.tensor([[[0.5, -0.25]]]), atol=1e-2, rtol=0)
    torch.testing.assert_close(layer.weight.grad, torch.tensor([[1.0, 2.0]]), atol=1e-2, rtol=0)


def test_a_transformer_computes_nearly_the_same_and_keeps_its_weights() -> None:
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
    )
    model = transformers.BertModel(config).eval()
    ids = torch.arange(12)[None, :]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = model(input_ids=ids).last_hidden_state
    simulate_int8(model)
    after = model(input_ids=ids).last_hidden_state
    assert 0 < (before - after).abs().max() < 0.2
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
