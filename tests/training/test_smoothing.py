from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnxruntime.quantization")

from shortlist.models.hub import ModelFiles  # noqa: E402
from shortlist.models.onnx_encoder import OnnxEncoder  # noqa: E402
from shortlist.models.training.bundle import calibration_texts, save_tokenizer  # noqa: E402
from shortlist.models.training.export import export_encoder, quantize  # noqa: E402
from shortlist.models.training.projections import join_projections  # noqa: E402
from shortlist.models.training.smoothing import smooth  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TEXTS = ["find the song", "delete one picture in the files app", "where is my album"]
#: Factor of some channels, such as trained encoders have.
OUTLIER = 60.0


def _encoder(start: Path) -> tuple[Any, Any]:
    """The toy encoder with a few channels that reach much farther than the others."""
    transformer = transformers.AutoModel.from_pretrained(start, attn_implementation="eager")
    with torch.no_grad():
        for layer in transformer.encoder.layer:
            layer.intermediate.dense.weight *= 20
            layer.intermediate.dense.weight[:3] *= OUTLIER
            layer.output.dense.weight *= 20
            layer.output.dense.weight[:, :3] /= OUTLIER
    return transformer.eval(), transformers.AutoTokenizer.from_pretrained(start)


def _states(transformer: Any, tokenizer: Any) -> Any:
    with torch.inference_mode():
        return transformer(**tokenizer(TEXTS, padding=True, return_tensors="pt")).last_hidden_state


def test_it_computes_what_it_computed_before(start: Path) -> None:
    transformer, tokenizer = _encoder(start)
    before = _states(transformer, tokenizer)
    smooth(transformer, tokenizer, TEXTS, max_length=32)
    after = _states(transformer, tokenizer)
    assert torch.allclose(before, after, atol=1e-4)


def test_query_key_and_value_are_the_same_out_of_one_product(start: Path) -> None:
    transformer, tokenizer = _encoder(start)
    before = _states(transformer, tokenizer)
    join_projections(transformer)
    assert torch.allclose(before, _states(transformer, tokenizer), atol=1e-5)
    kinds = [type(one).__name__ for one in transformer.encoder.layer[0].attention.self.children()]
    assert "Linear" not in kinds


def test_int8_loses_less_of_it(start: Path, tmp_path: Path) -> None:
    losses = []
    for smoothed in (False, True):
        transformer, tokenizer = _encoder(start)
        folder = tmp_path / str(smoothed)
        save_tokenizer(start, folder)
        (folder / "shortlist.json").write_text('{"max_tokens": 32, "pooling": "mean"}')
        export_encoder(transformer, folder / "exact.onnx")
        exact = OnnxEncoder(ModelFiles("exact", folder, folder / "exact.onnx"))
        if smoothed:
            smooth(transformer, tokenizer, TEXTS, max_length=32)
            export_encoder(transformer, folder / "smoothed.onnx")
        source = folder / ("smoothed.onnx" if smoothed else "exact.onnx")
        quantize(source, folder / "model.onnx")
        rounded = OnnxEncoder(ModelFiles("int8", folder, folder / "model.onnx"))
        cosines = np.sum(exact.encode(TEXTS) * rounded.encode(TEXTS), axis=1)
        losses.append(1 - float(cosines.mean()))
    assert losses[1] < 0.7 * losses[0]


def test_it_is_calibrated_on_what_users_write_and_tools_say() -> None:
    texts = calibration_texts()
    assert 500 < len(texts) < 1000
    assert len(set(texts)) > 0.95 * len(texts)
    assert any("Parameters:" in text for text in texts)
