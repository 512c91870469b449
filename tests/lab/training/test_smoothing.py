from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime.quantization")

from shortlist.lab.training.bundle import calibration_texts, save_tokenizer  # noqa: E402
from shortlist.lab.training.export import export_text, quantize  # noqa: E402
from shortlist.lab.training.single import SingleText  # noqa: E402
from shortlist.lab.training.smoothing import smooth  # noqa: E402
from shortlist.models.hub import ModelFiles  # noqa: E402
from shortlist.models.onnx_models import OnnxEncoder  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TEXTS = ["find the song", "delete one picture in the files app", "where is my album"]
#: Factor of some channels, such as trained encoders have.
OUTLIER = 60.0


def _encoder(start: Path) -> tuple[Any, Tokenizer]:
    """The toy encoder with a few channels that reach much farther than the others."""
    transformer = transformers.AutoModel.from_pretrained(start, attn_implementation="eager")
    with torch.no_grad():
        for layer in transformer.encoder.layer:
            value = layer.attention.self.value
            value.weight[:3] *= OUTLIER
            value.bias[:3] += OUTLIER
            layer.attention.output.dense.weight[:, :3] /= OUTLIER
            layer.intermediate.dense.weight *= 20
            layer.intermediate.dense.weight[:3] *= OUTLIER
            layer.output.dense.weight *= 20
            layer.output.dense.weight[:, :3] /= OUTLIER
    tokenizer = Tokenizer.from_file(str(start / "tokenizer.json"))
    tokenizer.no_padding()
    return transformer.eval(), tokenizer


def _states(transformer: Any, tokenizer: Tokenizer) -> list[Any]:
    texts = [torch.tensor([tokenizer.encode(text).ids]) for text in TEXTS]
    with torch.inference_mode():
        if isinstance(transformer, SingleText):
            return [transformer(ids) for ids in texts]
        return [transformer(ids).last_hidden_state for ids in texts]


def _equal(one: list[Any], other: list[Any], atol: float) -> bool:
    return all(torch.allclose(a, b, atol=atol) for a, b in zip(one, other, strict=True))


def test_one_text_a_call_gives_the_same_numbers_and_leaves_the_encoder_alone(start: Path) -> None:
    transformer, tokenizer = _encoder(start)
    before = _states(transformer, tokenizer)
    text = SingleText(transformer).eval()
    assert _equal(before, _states(text, tokenizer), atol=1e-5)
    smooth(text, tokenizer, TEXTS, max_length=32)
    assert _equal(before, _states(transformer, tokenizer), atol=0)


def test_it_computes_what_it_computed_before(start: Path) -> None:
    transformer, tokenizer = _encoder(start)
    text = SingleText(transformer).eval()
    before = _states(text, tokenizer)
    layer = text.layers[0]
    values = layer.joined.weight[-layer.width :].clone()
    smooth(text, tokenizer, TEXTS, max_length=32)
    assert _equal(before, _states(text, tokenizer), atol=1e-4)
    assert isinstance(layer.mixed, torch.nn.Linear)
    for name in ("joined", "up", "down"):
        assert not isinstance(getattr(layer, name), torch.nn.Linear)
    smoothed = layer.joined.linear.weight[-layer.width :] * layer.joined.inverse
    assert not torch.allclose(smoothed, values)


def test_int8_loses_less_of_it(start: Path, tmp_path: Path) -> None:
    losses = []
    for smoothed in (False, True):
        transformer, tokenizer = _encoder(start)
        text = SingleText(transformer)
        folder = tmp_path / str(smoothed)
        save_tokenizer(start, folder)
        (folder / "shortlist.json").write_text('{"max_tokens": 32, "pooling": "mean"}')
        export_text(text, folder / "exact.onnx")
        exact = OnnxEncoder(ModelFiles("exact", folder, folder / "exact.onnx"))
        if smoothed:
            smooth(text, tokenizer, TEXTS, max_length=32)
            export_text(text, folder / "smoothed.onnx")
        source = folder / ("smoothed.onnx" if smoothed else "exact.onnx")
        quantize(source, folder / "model.onnx")
        rounded = OnnxEncoder(ModelFiles("int8", folder, folder / "model.onnx"))
        cosines = np.sum(exact.encode(TEXTS) * rounded.encode(TEXTS), axis=1)
        losses.append(1 - float(cosines.mean()))
    assert losses[1] < 0.7 * losses[0]


def test_only_the_length_of_a_text_is_open_in_the_graph(start: Path, tmp_path: Path) -> None:
    transformer, _ = _encoder(start)
    export_text(SingleText(transformer), tmp_path / "model.onnx")
    graph = onnx.load(str(tmp_path / "model.onnx")).graph
    assert [node.name for node in graph.input] == ["input_ids"]
    lengths = graph.input[0].type.tensor_type.shape.dim
    assert [axis.dim_param for axis in lengths] == ["", "sequence"]
    assert sum(node.op_type == "Shape" for node in graph.node) <= 2


def test_it_is_calibrated_on_what_users_write_and_tools_say() -> None:
    texts = calibration_texts()
    assert 500 < len(texts) < 1000
    assert len(set(texts)) > 0.95 * len(texts)
    assert any("Parameters:" in text for text in texts)
