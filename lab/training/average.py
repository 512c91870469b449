r"""Averages the weights of trained encoders, to start from or to bundle.

::

    python -m shortlist.lab.training.average RUN/best OTHER/best --share 0.5 --share 0.5 \
        --out runs/average

If runs have the same start, the mean of their weights often ranks better than each of them
(Wortsman et al., "Model soups", ICML 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from transformers import AutoModel, AutoTokenizer

from ...errors import ConfigError
from .program import run_program


def average(folders: Sequence[Path], shares: Sequence[float], out: Path) -> None:
    """Write the weighted mean of encoders in Hugging Face layout, with the first one's tokenizer.

    Args:
        folders: folders of the encoders.
        shares: weight of each encoder; they are divided by their sum.
        out: folder to write.

    Raises:
        ConfigError: the number of shares differs from that of folders, or a share is not above 0.
    """
    if len(folders) != len(shares) or min(shares, default=0) < 0 or sum(shares) <= 0:
        raise ConfigError(
            f"--share: {len(folders)} encoders need as many shares above 0, not {shares}"
        )
    models = [AutoModel.from_pretrained(folder, dtype=torch.float32) for folder in folders]
    mean = _mean([model.state_dict() for model in models], shares)
    models[0].load_state_dict(mean)
    models[0].save_pretrained(out)
    AutoTokenizer.from_pretrained(folders[0], local_files_only=True).save_pretrained(out)


def _mean(
    states: Sequence[dict[str, torch.Tensor]], shares: Sequence[float]
) -> dict[str, torch.Tensor]:
    total = sum(shares)
    return {
        name: torch.stack(
            [state[name] * (share / total) for state, share in zip(states, shares, strict=True)]
        ).sum(dim=0)
        if value.is_floating_point()
        else value
        for name, value in states[0].items()
    }


def main(
    folders: Annotated[list[Path], typer.Argument(help="Encoders, Hugging Face layout.")],
    share: Annotated[
        list[float], typer.Option(help="Weight of each encoder, in order; repeatable.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Average encoders."""
    average(folders, share, out)


if __name__ == "__main__":
    run_program(main)
