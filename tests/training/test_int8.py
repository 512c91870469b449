from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from shortlist.models.training.int8 import rounded, simulate_int8  # noqa: E402


def test_rounding_is_that_of_dynamic_quantisation() -> None:
    values = torch.tensor([-1.0, 0.0, 0.004, 1.0, 1.55])
    scale = 2.55 / 255
    expected = torch.round(values / scale) * scale
    torch.testing.assert_close(rounded(values), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("values", [[0.0, 0.0], [2.0, 3.0], [-5.0, -4.0]])
def test_zero_stays_exact_and_nothing_leaves_the_range(values: list[float]) -> None:
    tensor = torch.tensor([*values, 0.0])
    found = rounded(tensor)
    assert found[-1] == 0
    assert torch.isfinite(found).all()
    assert (found - tensor).abs().max() <= tensor.abs().max() / 255


def test_at_most_256_values_remain_and_gradients_pass() -> None:
    values = torch.linspace(-1, 2, 5000, requires_grad=True)
    found = rounded(values)
    assert 250 < len(found.detach().unique()) <= 256
    (found * torch.arange(5000)).sum().backward()
    torch.testing.assert_close(values.grad, torch.arange(5000, dtype=torch.float32))


def test_two_inputs_of_each_layer_are_rounded() -> None:
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
    )
    model = transformers.BertModel(config).eval()
    ids = torch.arange(12)[None, :]
    before = model(input_ids=ids).last_hidden_state
    assert simulate_int8(model) == 6
    after = model(input_ids=ids).last_hidden_state
    assert 0 < (before - after).abs().max() < 0.2
