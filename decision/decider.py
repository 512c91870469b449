"""Decider: decides which tools of an answer to offer, or none."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from ..catalog.text_file import read_text_file
from ..errors import ConfigError
from ..retrieval.selection import Hit, Selection
from .logistic import form_of
from .measurements import DEPTH, measure
from .network import Network
from .tier import TierModel

OFF, BUNDLED = "off", "bundled"
MIN_TOOLS = 10
"""With fewer permitted tools there is no decision: the calibration had no smaller catalogs, and a
model can read so few tools itself."""
_FILE = Path(__file__).parent / "bundled.json"
_FORMAT = 1
#: Stages whose word is final: the request is the tool's name, or its server takes the turn.
_FINAL = frozenset({"exact", "claim"})


@dataclass(frozen=True, slots=True)
class Judged:
    """A hit with its probability of being right; None if the tier has no calibration."""

    hit: Hit
    probability: float | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The tools to offer, or an abstention.

    Args:
        hits: the tools to offer, best first; empty when abstaining.
        judged: every hit of the answer with its probability, in order.
        fits: probability that any tool fits the query; None if the tier has no calibration.
        abstained: whether nothing is offered because no tool fits.
        reason: why nothing is offered, or why there was no decision; otherwise None.
        cut: how the number of offered tools was decided, in one sentence.
    """

    hits: tuple[Hit, ...]
    judged: tuple[Judged, ...]
    fits: float | None
    abstained: bool
    reason: str | None
    cut: str

    @classmethod
    def unjudged(cls, hits: tuple[Hit, ...], k: int | None, why: str) -> Self:
        """The first `k` hits, with the reason why there is no decision.

        Abstains only without hits.
        """
        if not hits:
            return cls((), (), None, True, "the search found no tool", "nothing to cut")
        judged = tuple(Judged(hit, None) for hit in hits)
        return cls(hits[:k], judged, None, False, why, _first(hits, k))

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the tools to offer, best first."""
        return tuple(hit.id for hit in self.hits)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "ids": list(self.ids),
            "abstained": self.abstained,
            "fits": _short(self.fits),
            "reason": self.reason,
            "cut": self.cut,
            "judged": [
                {"id": one.hit.id, "probability": _short(one.probability)} for one in self.judged
            ],
        }


@dataclass(frozen=True, slots=True)
class Decider:
    """Makes decisions, with one model per tier.

    Args:
        tiers: tier name to its model.
        wording: model for the log-odds, from a query's vector, that it asks for a tool at all; None
            if unknown.
        encoder: fingerprint of the encoder whose cosines and vectors the models use; None if they
            use none.
        unfit: tier name to why its model was left out.
        origin: data that the models were fitted on.
    """

    tiers: Mapping[str, TierModel] = field(default_factory=dict)
    wording: Network | None = None
    encoder: str | None = None
    unfit: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    @cache
    def bundled(cls) -> Self:
        """The bundled models, for the bundled encoder and the built-in tiers."""
        return cls.load(_FILE)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Models from a file that `save` or `shortlist calibrate` wrote.

        Raises:
            ConfigError: the file cannot be read or has another format.
        """
        try:
            saved = json.loads(read_text_file(path, error=ConfigError))
            if saved["format"] != _FORMAT:
                raise ConfigError(
                    f"{path}: calibration of format {saved['format']!r}, not {_FORMAT}; "
                    "make it again with `shortlist calibrate`"
                )
            models = {tier: TierModel.from_dict(model) for tier, model in saved["tiers"].items()}
            wording = None if saved["wording"] is None else Network.from_dict(saved["wording"])
            return cls(models, wording, saved["encoder"], {}, saved["origin"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"{path}: cannot be read as a calibration ({error!r}); "
                "`shortlist calibrate` writes one"
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the models as JSON.

        Raises:
            OSError: the disk refuses.
        """
        held = {
            "format": _FORMAT,
            "origin": dict(self.origin),
            "encoder": self.encoder,
            "wording": form_of(self.wording),
            "tiers": {tier: form_of(model) for tier, model in self.tiers.items()},
        }
        Path(path).write_text(json.dumps(held) + "\n", encoding="utf-8")

    def for_encoder(self, fingerprint: str | None) -> Self:
        """A copy with only the models that fit an encoder.

        Args:
            fingerprint: fingerprint of the encoder; None if the engine has none.
        """
        if fingerprint == self.encoder:
            return self
        unfit = {
            tier: f"the calibration of tier {tier!r} was fitted to another encoder; "
            "`shortlist calibrate` fits one to this"
            for tier, model in self.tiers.items()
            if model.dense
        }
        models = {tier: model for tier, model in self.tiers.items() if tier not in unfit}
        return type(self)(models, None, None, {**self.unfit, **unfit}, self.origin)

    def decide(self, selection: Selection, *, k: int | None = None) -> Decision:
        """Decide which tools of an answer to offer.

        Args:
            selection: the answer, with `measurements.DEPTH` (20) hits if possible. The model of
                wording reads its vector.
            k: maximum number of tools to offer; all that pass the cut when absent.
        """
        hits = selection.hits
        model = self.tiers.get(selection.tier)
        if model is None or not hits:
            why = self.unfit.get(selection.tier, f"tier {selection.tier!r} has no calibration")
            return Decision.unjudged(hits, k, why)
        measured = measure(selection.query, hits[:DEPTH])
        wording = None
        if selection.vector is not None and self.wording is not None:
            wording = float(self.wording(selection.vector))
        fits = model.fitting(measured, wording)
        right = model.rightness(measured).tolist()
        final = [not _FINAL.isdisjoint(hit.stages) for hit in hits]
        judged = tuple(
            Judged(hit, 1.0 if named else probability)
            for hit, named, probability in zip(hits, final, right, strict=False)
        )
        if fits < model.abstain_below and not any(final):
            reason = (
                f"no tool fits: the probability that any does is {fits:.3f}, and below "
                f"{model.abstain_below:.3f} none is offered"
            )
            return Decision((), judged, fits, True, reason, "nothing is offered")
        offered = [one.hit for one in judged if (one.probability or 0.0) >= model.keep_from]
        if not offered:
            best = max(judged, key=lambda one: one.probability or 0.0)
            return Decision((best.hit,), judged, fits, False, None, _best(best, model))
        return Decision(
            tuple(offered[:k]), judged, fits, False, None, _cut(model, offered, hits, k)
        )


def decider_for(
    setting: str | Path, encoder: str | None, reranked: Collection[str] = ()
) -> Decider | None:
    """The decider of the setting `decision`, for an encoder; None where the decision is off.

    There is no decision for tiers whose scores come from another encoder than the calibration's;
    the answer says so.

    Args:
        setting: `bundled`, `off`, or a file that `shortlist calibrate` wrote.
        encoder: fingerprint of the engine's encoder; None if it has none.
        reranked: names of the tiers with a reranker; the bundled calibration has no model for them.

    Raises:
        ConfigError: the file cannot be read.
    """
    if setting == OFF:
        return None
    if setting != BUNDLED:
        return Decider.load(setting).for_encoder(encoder)
    decider = Decider.bundled().for_encoder(encoder)
    models = {tier: model for tier, model in decider.tiers.items() if tier not in reranked}
    return replace(decider, tiers=models)


def _short(probability: float | None) -> float | None:
    return None if probability is None else round(probability, 4)


def _first(hits: tuple[Hit, ...], k: int | None) -> str:
    return f"the first {len(hits[:k])} of {len(hits)}; nothing is judged"


def _best(best: Judged, model: TierModel) -> str:
    return (
        f"only the best: its probability of being right is {best.probability:.3f}, and all are "
        f"below {model.keep_from:.3f}"
    )


def _cut(model: TierModel, offered: list[Hit], hits: tuple[Hit, ...], k: int | None) -> str:
    promise = (
        "no cut keeps a promise here"
        if model.alpha is None
        else f"which keeps {1 - model.alpha:.0%} of right tools"
    )
    bound = f"; k allows {k}" if k is not None and len(offered) > k else ""
    return (
        f"{len(offered)} of {len(hits)} have a probability of at least {model.keep_from:.3f}, "
        f"{promise}{bound}"
    )
