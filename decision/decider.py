"""Decider: decides whether any tool of an answer fits the query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..catalog.text_file import read_text_file
from ..catalog.tool_document import definition_terms
from ..errors import ConfigError
from ..retrieval.id_lookup import terms_of_name
from ..retrieval.search.answer import STAGES_ABOVE_THRESHOLD, below_threshold
from ..retrieval.selection import Hit, Selection
from ..text import query_terms
from .classifier import Classifier, sigmoid
from .measurements import HITS_MEASURED, MEASUREMENTS, measure
from .personal import any_keeps_what_is_said

OFF, BUNDLED = "off", "bundled"
MIN_TOOLS = 10
"""With fewer permitted tools there is no decision: the calibration had no smaller catalogs, and a
model can read so few tools itself."""
WORDING = "wording"
"""Input of a tier's model besides the measurements: log-odds, from the query's vector, that the
query asks for a tool at all."""
PERSONAL = "personal"
"""Log-odds, from the query's vector, that the query is a sentence to or about the user, such as a
tool may keep, or ask for what it has kept."""
CERTAIN = "certain"
"""Measured as 1 if a tool fits whatever the models say: see `certain_basis`."""
Basis: TypeAlias = Literal[
    "named", "all_words", "personal", "model", "threshold", "no_hit", "nothing_asked", "not_judged"
]
"""What a decision follows from:

- `named`: the query names a tool, by its id, its name or as a command, or a server claimed it
- `all_words`: one of the best hits has all terms of the query in its definition
- `personal`: the query is a sentence to or about the user, and one of the hits keeps such sentences
- `model`: the probability that the tier's model gave
- `threshold`: the tier's threshold dropped every hit
- `no_hit`: the search found no tool
- `nothing_asked`: nothing was searched for, because the message asks for nothing
- `not_judged`: there was no decision
"""
_HITS_WITH_ALL_TERMS = 3
BUNDLED_FILE = Path(__file__).parent / "bundled.json"
"""The bundled models. `shortlist lab fit-decision` writes them."""
_FORMAT = 3


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether any tool of an answer fits the query.

    Args:
        abstained: whether to offer nothing, because no tool fits.
        basis: what it follows from.
        fits: probability that any tool fits the query, 1 without asking the model where a tool fits
            whatever it says; None if there was no decision.
        reason: why nothing is offered, or why there was no decision; otherwise None.
    """

    abstained: bool
    basis: Basis
    fits: float | None = None
    reason: str | None = None

    @classmethod
    def unjudged(cls, selection: Selection, reason: str) -> Decision:
        """No decision, with the reason. Abstains only if the search found no tool."""
        if selection.hits_and_dropped:
            return cls(False, "not_judged", reason=reason)
        return NO_HIT


NO_HIT = Decision(True, "no_hit", reason="the search found no tool")


@dataclass(frozen=True, slots=True)
class TierModel:
    """The calibration of one tier.

    Args:
        classifier: model for whether any tool fits a query.
        inputs: names of its inputs, in order: measurements, and `wording`.
        abstain_below: the decision abstains if the probability that any tool fits is lower.
        limits: share of queries with a right tool that may be lost to the `abstain_below` for it;
            see `with_loss`.
        threshold: score below which hits are dropped; None for none.
        dense: whether the tier compares vectors of the encoder.
        reranker: name of the tier's reranker; None without one.
    """

    classifier: Classifier
    inputs: tuple[str, ...]
    abstain_below: float
    threshold: float | None = None
    dense: bool = False
    reranker: str | None = None
    limits: Mapping[float, float] = field(default_factory=dict)

    def with_loss(self, loss: float) -> Self:
        """The calibration that loses at most about this share of the queries with a right tool.

        It has the limit of the largest known share that is not above `loss`, and never abstains if
        there is none.
        """
        below = max((share for share in self.limits if share <= loss), default=None)
        return replace(self, abstain_below=0.0 if below is None else self.limits[below])

    def probability(self, measured: Mapping[str, float]) -> float:
        """Probability that any tool fits the query. An input that is missing counts as average.

        Args:
            measured: the result of `measure_answer`. It is 1 for an answer with `certain`.
        """
        if measured.get(CERTAIN):
            return 1.0
        return float(sigmoid(self.classifier(self.row(measured))))

    def row(self, measured: Mapping[str, float]) -> NDArray[np.float64]:
        """The inputs of the classifier, shape (m,)."""
        averages = zip(self.inputs, self.classifier.centre.tolist(), strict=True)
        return np.array([measured.get(name, average) for name, average in averages])

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "dense": self.dense,
            "reranker": self.reranker,
            "threshold": self.threshold,
            "abstain_below": self.abstain_below,
            "limits": [list(limit) for limit in self.limits.items()],
            "inputs": list(self.inputs),
            "fits": self.classifier.to_dict(),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """A model from the result of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: it is no such result, or has unknown inputs.
        """
        inputs = tuple(saved["inputs"])
        if unknown := [name for name in inputs if name not in (*MEASUREMENTS, WORDING)]:
            raise ValueError(f"this version does not measure {', '.join(map(str, unknown))}")
        classifier = Classifier.from_dict(saved["fits"])
        if len(inputs) != len(classifier.centre):
            raise ValueError(
                f"{len(inputs)} inputs are named, and {len(classifier.centre)} are used"
            )
        threshold = saved["threshold"]
        return cls(
            classifier=classifier,
            inputs=inputs,
            abstain_below=float(saved["abstain_below"]),
            threshold=None if threshold is None else float(threshold),
            dense=bool(saved["dense"]),
            reranker=saved["reranker"],
            limits={float(share): float(below) for share, below in saved["limits"]},
        )


def measure_answer(
    query: str, hits: Sequence[Hit], odds: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The measurements of an answer, with what is known from the query's vector.

    Args:
        query: the query.
        hits: its hits, best first, at most `HITS_MEASURED`.
        odds: log-odds that the models read from the query's vector, by model: the result of
            `Decider.vector_odds`; None if the vector is not known.
    """
    measured = measure(query, hits) | dict(odds or {})
    measured.pop(PERSONAL, None)
    if certain_basis(query, hits, odds) is not None:
        measured[CERTAIN] = 1.0
    return measured


def certain_basis(
    query: str, hits: Sequence[Hit], odds: Mapping[str, float] | None = None
) -> Basis | None:
    """Why a tool fits whatever the models say; None if they decide. Arguments: `measure_answer`."""
    if any(not STAGES_ABOVE_THRESHOLD.isdisjoint(hit.stages) for hit in hits):
        return "named"
    if _has_all_terms(query, hits[:_HITS_WITH_ALL_TERMS]):
        return "all_words"
    if (odds or {}).get(PERSONAL, 0.0) > 0 and any_keeps_what_is_said(hits):
        return "personal"
    return None


def _has_all_terms(query: str, hits: Sequence[Hit]) -> bool:
    """Whether one of the hits has every term of the query in its definition.

    A single term has to be in its name: "what's your name?" is no query for a tool with a `name`.
    """
    terms = frozenset(query_terms(query))
    if len(terms) == 1:
        return any(terms <= terms_of_name(hit.tool.name) for hit in hits)
    return bool(terms) and any(terms <= definition_terms(hit.tool) for hit in hits)


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides whether any tool fits, with one model per tier.

    Args:
        tiers: tier name to its model.
        wording: model for the log-odds, from a query's vector, that it asks for a tool at all; None
            if there is none.
        encoder: fingerprint of the encoder whose cosines and vectors the models use; None if they
            use none.
        unfit: tier name to why its model was left out.
        origin: data that the models were fitted on.
        personal: model for the log-odds, from a query's vector, that it is a sentence to or about
            the user; None if there is none.
    """

    tiers: Mapping[str, TierModel] = field(default_factory=dict)
    wording: Classifier | None = None
    encoder: str | None = None
    unfit: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    personal: Classifier | None = None

    @classmethod
    @cache
    def bundled(cls) -> Self:
        """The bundled models, for the bundled encoder and the built-in tiers without a reranker."""
        return cls.load(BUNDLED_FILE)

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
            wording, personal = (
                None if saved.get(name) is None else Classifier.from_dict(saved[name])
                for name in (WORDING, PERSONAL)
            )
            return cls(models, wording, saved["encoder"], {}, saved["origin"], personal)
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
        saved = {
            "format": _FORMAT,
            "origin": dict(self.origin),
            "encoder": self.encoder,
            WORDING: None if self.wording is None else self.wording.to_dict(),
            PERSONAL: None if self.personal is None else self.personal.to_dict(),
            "tiers": {tier: model.to_dict() for tier, model in self.tiers.items()},
        }
        Path(path).write_text(json.dumps(saved) + "\n", encoding="utf-8")

    def for_engine(self, encoder: str | None, rerankers: Mapping[str, str | None]) -> Self:
        """A copy with only the models that fit an engine.

        Args:
            encoder: fingerprint of its encoder; None if it has none.
            rerankers: tier name to the name of its reranker; None for a tier without one.
        """
        unfit = dict(self.unfit)
        for tier, model in self.tiers.items():
            if model.dense and encoder != self.encoder:
                unfit[tier] = _unfit_reason(tier, "encoder")
            elif rerankers.get(tier) != model.reranker:
                unfit[tier] = _unfit_reason(tier, "reranker")
        models = {tier: model for tier, model in self.tiers.items() if tier not in unfit}
        if encoder != self.encoder:
            return type(self)(models, None, None, unfit, self.origin)
        return replace(self, tiers=models, unfit=unfit)

    @property
    def thresholds(self) -> dict[str, float]:
        """Tier name to the score below which its hits are dropped, for tiers that have one."""
        every = {tier: model.threshold for tier, model in self.tiers.items()}
        return {tier: threshold for tier, threshold in every.items() if threshold is not None}

    def vector_odds(self, vector: NDArray[Any] | None) -> dict[str, float]:
        """What the models read from a query's vector: log-odds by `wording` and `personal`.

        Empty without a vector, and without such models.
        """
        models = {WORDING: self.wording, PERSONAL: self.personal}
        if vector is None:
            return {}
        return {name: float(model(vector)) for name, model in models.items() if model is not None}

    def decide(self, selection: Selection) -> Decision:
        """Decide whether any tool of an answer fits.

        Args:
            selection: the answer, with `measurements.HITS_MEASURED` (20) hits if possible. The
                models of wording and of personal sentences read its vector.
        """
        model = self.tiers.get(selection.tier)
        if model is None or not selection.hits_and_dropped:
            tier = selection.tier
            return Decision.unjudged(
                selection, self.unfit.get(tier, f"tier {tier!r} has no calibration")
            )
        # The models were fitted to answers from which no threshold had dropped hits.
        odds = self.vector_odds(selection.vector)
        query, hits = selection.query, selection.hits_and_dropped[:HITS_MEASURED]
        if basis := certain_basis(query, hits, odds):
            return Decision(False, basis, fits=1.0)
        fits = model.probability(measure_answer(query, hits, odds))
        if fits >= model.abstain_below:
            return Decision(False, "model", fits=fits)
        reason = (
            f"no tool fits: the probability that any does is {fits:.3f}, and below "
            f"{model.abstain_below:.3f} none is offered"
        )
        return Decision(True, "model", fits=fits, reason=reason)


def decider_for(
    setting: str | Path,
    encoder: str | None,
    rerankers: Mapping[str, str | None],
    loss: float | None = None,
) -> Decider | None:
    """The decider of the setting `decision`, for an engine; None where the decision is off.

    There is no decision for tiers whose scores come from another encoder or reranker than the
    calibration's; the answer says so.

    Args:
        setting: `bundled`, `off`, or a file that `shortlist calibrate` wrote.
        encoder: fingerprint of the engine's encoder; None if it has none.
        rerankers: tier name to the name of its reranker; None for a tier without one.
        loss: the setting `abstention_loss`; None for the calibration's own limit.

    Raises:
        ConfigError: the file cannot be read.
    """
    if setting == OFF:
        return None
    decider = Decider.bundled() if setting == BUNDLED else Decider.load(setting)
    fitting = decider.for_engine(encoder, rerankers)
    if loss is None:
        return fitting
    models = {tier: model.with_loss(loss) for tier, model in fitting.tiers.items()}
    return replace(fitting, tiers=models)


def _unfit_reason(tier: str, part: str) -> str:
    return (
        f"the calibration of tier {tier!r} was fitted to another {part}; "
        "`shortlist calibrate` fits one to this"
    )


def threshold_decision(selection: Selection) -> Decision | None:
    """The decision where the tier's threshold dropped every hit; None otherwise."""
    if selection.hits or not selection.dropped:
        return None
    best = below_threshold(selection.dropped[0].score, selection.threshold, selection.tier)
    return Decision(True, "threshold", reason=f"no tool fits: the best {best}")


def judge_answer(decider: Decider | None, selection: Selection, permitted: int) -> Decision:
    """`judge_selection`, and `threshold_decision` where the model does not abstain."""
    decision = judge_selection(decider, selection, permitted)
    by_threshold = threshold_decision(selection)
    if by_threshold is not None and not decision.abstained:
        return replace(by_threshold, fits=decision.fits)
    return decision


def judge_selection(decider: Decider | None, selection: Selection, permitted: int) -> Decision:
    """Whether any tool of an answer fits the query, whatever the tier's threshold dropped.

    Args:
        decider: judges the answer; None if the decision is off.
        selection: the answer, with `measurements.HITS_MEASURED` (20) hits if the catalog has so
            many tools.
        permitted: number of tools that the search was permitted to find.
    """
    if decider is None:
        return Decision.unjudged(selection, "the decision is off")
    if permitted < MIN_TOOLS:
        reason = f"only {permitted} tools are permitted; fewer than {MIN_TOOLS} are not judged"
        return Decision.unjudged(selection, reason)
    return decider.decide(selection)
