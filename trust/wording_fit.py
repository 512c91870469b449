"""Fits the weights of `wording` on attacks and benign definitions.

`python -m shortlist.trust.wording_fit --attacks FILE... --benign FILE... --tools FILE...` writes
`wording.json` beside this file. Logistic regression with a square penalty, solved by L-BFGS.
"""

from __future__ import annotations

import argparse
import json
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool, read_tools
from .reading import passages
from .wording import SHORTEST, Heard, hear, stretches

LOOSENESS: Final = 20.0
"""Inverse of the penalty, as scikit-learn's C; chosen among 5, 20 and 100 on one author unread."""
TOOL_WEIGHT: Final = 0.1
"""What a stretch of a real server's tool counts beside one of a case."""
SEEN_IN_TOOLS: Final = 20
"""Real tools' segments a feature must be in that no case has."""
SMALLEST: Final = 0.1
"""Weights nearer to zero are left out."""
_STEPS = 200
_KEPT = 10

_Floats = NDArray[np.float64]


def segments_of(tool: Tool) -> Iterator[list[Heard]]:
    """The segments of each text of a tool that may be an order, one list a text.

    The first sentence of a longer description says what the tool does and is left out.

    Args:
        tool: the definition.
    """
    for passage in passages(tool):
        said = passage.pieces
        if passage.where == "description" and len(said) > 1:
            said = said[1:]
        heard = [hear(piece.lower()) for piece in said]
        if sum(one.length for one in heard) >= SHORTEST:
            yield heard


class Rows:
    """Stretches by features, each row divided by its length's root, with what it is and counts.

    Args:
        groups: texts, 1 for orders or -1 for others, and what one stretch counts.
        columns: feature to number.
    """

    def __init__(
        self, groups: Iterable[tuple[list[list[Heard]], float, float]], columns: dict[str, int]
    ) -> None:
        """Reads all stretches of the texts; those without a known feature teach nothing."""
        indices, values, starts = array("q"), array("d"), array("q", [0])
        signs, shares = array("d"), array("d")
        for texts, sign, share in groups:
            for _, said, divisor in (one for heard in texts for one in stretches(heard)):
                known = [columns[one] for one in said if one in columns]
                if known:
                    indices.extend(known)
                    values.extend([1 / divisor] * len(known))
                    starts.append(len(indices))
                    signs.append(sign)
                    shares.append(share)
        self._indices = np.array(indices)
        self._values = np.array(values)
        self._starts = np.array(starts[:-1])
        self._lengths = np.diff(np.array(starts))
        self._columns = len(columns)
        self.signs = np.array(signs)
        self.shares = np.array(shares)

    def times(self, weights: _Floats) -> _Floats:
        """Sum of the weights of each row."""
        return np.asarray(np.add.reduceat(self._values * weights[self._indices], self._starts))

    def back(self, rows: _Floats) -> _Floats:
        """Sum over the rows of each feature."""
        spread = self._values * np.repeat(rows, self._lengths)
        return np.bincount(self._indices, spread, self._columns).astype(np.float64)


def fit(
    attacks: Sequence[Tool], benign: Sequence[Tool], tools: Sequence[Tool]
) -> tuple[float, dict[str, float]]:
    """Bias and weights.

    Args:
        attacks: definitions that hold an order.
        benign: definitions that look like them and hold none.
        tools: those of real servers.
    """
    hostile, calm, real = (
        [text for tool in some for text in segments_of(tool)] for some in (attacks, benign, tools)
    )
    in_cases = Counter(one for text in hostile + calm for heard in text for one in heard.said)
    in_tools = Counter(one for text in real for heard in text for one in heard.said)
    features = {one for one in in_cases if in_cases[one] + in_tools[one] > 1}
    features |= {one for one, seen in in_tools.items() if seen >= SEEN_IN_TOOLS}
    columns = {one: number for number, one in enumerate(sorted(features))}
    solved = _solved(
        Rows(
            (
                (hostile, 1.0, LOOSENESS),
                (calm, -1.0, LOOSENESS),
                (real, -1.0, LOOSENESS * TOOL_WEIGHT),
            ),
            columns,
        ),
        len(columns),
    )
    weights = {
        one: round(float(solved[number]), 2)
        for one, number in columns.items()
        if abs(solved[number]) >= SMALLEST
    }
    return round(float(solved[-1]), 3), weights


def _solved(rows: Rows, columns: int) -> _Floats:
    """Weights and, last, the bias, which is not penalised; limited-memory BFGS."""
    signs, shares = rows.signs, rows.shares

    def loss(point: _Floats) -> tuple[float, _Floats]:
        margin = signs * (rows.times(point[:-1]) + point[-1])
        pull = -shares * signs / (1 + np.exp(np.clip(margin, -30, 30)))
        slope = np.append(rows.back(pull) + point[:-1], pull.sum())
        value = float(shares @ np.logaddexp(0, -margin) + point[:-1] @ point[:-1] / 2)
        return value, slope

    point = np.zeros(columns + 1)
    value, slope = loss(point)
    past: deque[tuple[_Floats, _Floats]] = deque(maxlen=_KEPT)
    for _ in range(_STEPS):
        direction = -_curved(slope, past)
        stride = 1.0 if past else 1 / float(np.abs(slope).sum())
        while True:
            there = point + stride * direction
            value_there, slope_there = loss(there)
            if value_there <= value + 1e-4 * stride * float(slope @ direction) or stride < 1e-10:
                break
            stride /= 2
        if float((slope_there - slope) @ (there - point)) > 0:
            past.append((there - point, slope_there - slope))
        settled = value - value_there < 1e-6 * value
        point, value, slope = there, value_there, slope_there
        if settled:
            break
    return point


def _curved(slope: _Floats, past: Sequence[tuple[_Floats, _Floats]]) -> _Floats:
    """The slope scaled by the curvature that the last steps found."""
    result = slope.copy()
    shares = []
    for step, change in reversed(past):
        share = float(step @ result) / float(step @ change)
        result -= share * change
        shares.append(share)
    if past:
        step, change = past[-1]
        result *= float(step @ change) / float(change @ change)
    for (step, change), share in zip(past, reversed(shares), strict=True):
        result += step * (share - float(change @ result) / float(step @ change))
    return result


def main() -> None:
    """Reads the files and writes the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("attacks", "benign", "tools"):
        parser.add_argument(f"--{name}", nargs="+", required=True)
    asked = parser.parse_args()
    read = [
        [tool for path in paths for tool in read_tools(Path(path)).tools]
        for paths in (asked.attacks, asked.benign, asked.tools)
    ]
    bias, weights = fit(*read)
    fitted = {"bias": bias, "weights": dict(sorted(weights.items()))}
    text = json.dumps(fitted, ensure_ascii=False, indent=0, separators=(",", ":"))
    (Path(__file__).parent / "wording.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
