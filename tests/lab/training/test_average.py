from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("typer")

from shortlist.errors import ConfigError  # noqa: E402
from shortlist.lab.training.average import average  # noqa: E402
from shortlist.lab.training.text_encoder import TextEncoder  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture
def three(start: Path, tmp_path: Path) -> list[Path]:
    """The toy encoder, and two like it with other weights."""
    folders = [start]
    for factor in (2.0, 4.0):
        encoder = TextEncoder(start, CPU)
        with torch.no_grad():
            for weights in encoder.transformer.parameters():
                weights *= factor
        folders.append(tmp_path / str(factor))
        encoder.save(folders[-1])
    return folders


def test_it_is_the_weighted_mean(three: list[Path], tmp_path: Path) -> None:
    average(three, [1.0, 1.0, 2.0], tmp_path / "mean")
    first, mean = (TextEncoder(folder, CPU) for folder in (three[0], tmp_path / "mean"))
    expected = (1 + 2 + 2 * 4) / 4
    for one, other in zip(
        first.transformer.parameters(), mean.transformer.parameters(), strict=True
    ):
        torch.testing.assert_close(other, expected * one)


@pytest.mark.parametrize("shares", [[1.0], [0.0, 0.0], [2.0, -1.0], []])
def test_shares_that_make_no_mean_are_refused(
    three: list[Path], tmp_path: Path, shares: list[float]
) -> None:
    with pytest.raises(ConfigError, match="2 encoders"):
        average(three[:2], shares, tmp_path / "mean")
