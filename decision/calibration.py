"""Calibrates the decision to a catalog, from labelled queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import RequestError
from ..retrieval.search.answer import split_at_threshold
from ..retrieval.selection import Selection
from ..retrieval.usage import UsageEvent
from .classifier import Classifier
from .decider import Decider, TierModel, measure_answer
from .measurements import HITS_MEASURED, MEASUREMENTS

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..models import Encoder

DEFAULT_LOST_SHARE = 0.0275
"""Default share of queries with a right tool on which the decision may abstain."""
LOST_SHARES = (0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
"""Shares for which a calibration knows the limit below which it abstains."""
#: Number of parts of the examples. Each part is measured by a model fitted to the other parts.
FOLD_COUNT = 5
#: Examples of each kind that every part needs for fitting.
_MIN_PER_PART = 2
#: L2 penalty of a logistic model's weights. Of 1 to 300, this value found the most queries of the
#: development set that no tool fits, with all of its queries and with 120.
_RIDGE = 30.0


class Searching(Protocol):
    """An engine, or an object with the same search methods."""

    @property
    def catalog(self) -> Catalog: ...  # noqa: D102
    def view(self, *, allowed: Sequence[str] | None = None) -> SearchingView: ...  # noqa: D102


class SearchingView(Protocol):
    """A view, or an object with the same search methods."""

    def search(self, query: str, *, tier: str, k: int) -> Selection: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Example:
    """A measured answer with its labels.

    Args:
        measured: the result of `measure_answer`.
        scores: final score of each hit, shape (n,): inf for a hit that no threshold drops, -inf
            for one that every threshold drops.
        right: whether each hit is right, shape (n,).
        relevant_count: number of right tools; 0 if no tool fits.
        uses_vectors: whether a dense stage found any of the hits.
        group: number of the query. Examples of one query are always on the same side of a split.
    """

    measured: Mapping[str, float]
    scores: NDArray[np.float64]
    right: NDArray[np.bool_]
    relevant_count: int
    uses_vectors: bool
    group: int

    @classmethod
    def of(
        cls,
        selection: Selection,
        relevant: Collection[str],
        *,
        odds: Mapping[str, float] | None = None,
        group: int = 0,
    ) -> Self:
        """Measure an answer.

        Args:
            selection: an answer with `HITS_MEASURED` hits if possible.
            relevant: ids of the right tools.
            odds: log-odds that the decision's models read from the query's vector, by model: the
                result of `Decider.vector_odds`; None if unknown.
            group: see the class.
        """
        hits = selection.hits_and_dropped[:HITS_MEASURED]
        always_kept = {hit.id for hit in split_at_threshold(np.inf, hits)[0]}
        never_kept = {hit.id for hit in split_at_threshold(-np.inf, hits)[1]}
        scores = [
            np.inf if hit.id in always_kept else -np.inf if hit.id in never_kept else hit.score
            for hit in hits
        ]
        return cls(
            measured=measure_answer(selection.query, hits, odds),
            scores=np.array(scores, np.float64),
            right=np.array([hit.id in relevant for hit in hits], np.bool_),
            relevant_count=len(relevant),
            uses_vectors=any("dense" in hit.stages for hit in hits),
            group=group,
        )

    @property
    def served(self) -> bool:
        """Whether any tool fits the query."""
        return self.relevant_count > 0


@dataclass(frozen=True, slots=True)
class Report:
    """Figures of one tier's model.

    Args:
        served: number of queries that a tool fits.
        unserved: number of queries that no tool fits.
        found: share of right tools among the first `k` hits, over `served`.
        kept: share of right tools that are offered, over queries of `served` without abstention.
        offered: mean number of offered tools, over the same queries.
        f1: F1 of the offered tools, over all hits of all labelled queries together.
        f1_of_all: F1 of the first `k` hits, without abstention and threshold.
        abstained: share of `unserved` on which it abstained; None without any.
        right: share of abstentions that were right; None without any.
        lost: share of `served` with a right tool in the first `k` hits on which it abstained.
    """

    served: int
    unserved: int
    found: float
    kept: float
    offered: float
    f1: float
    f1_of_all: float
    abstained: float | None
    right: float | None
    lost: float

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Fitted models with their measured figures.

    Args:
        decider: the models.
        reports: tier to its figures, by cross-validation.
        start: tier to where its model comes from. `bundled`: the bundled model, with new limits for
            abstaining and for dropping hits. `requests`: a logistic model fitted to these queries.
        negative_count: number of queries searched again without the servers of their tools.
    """

    decider: Decider
    reports: dict[str, Report]
    start: dict[str, str]
    negative_count: int


def calibrate(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tiers: Sequence[str],
    *,
    encoder: Encoder | None,
    rerankers: Mapping[str, str | None],
    base: Decider,
    k: int,
    lost: float = DEFAULT_LOST_SHARE,
    threshold: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Fit models to labelled queries for a catalog.

    Negative examples are the same queries with the servers of their tools removed. If a base model
    fits the encoder and the reranker, it is kept, and only the probability below which it abstains
    is chosen again. Otherwise a logistic model is fitted to the measurements of the answers.

    Args:
        engine: searches the catalog.
        requests: labelled queries.
        tiers: names of the tiers to calibrate.
        encoder: encoder of the engine; None if it has none.
        rerankers: tier name to the name of its reranker; None for a tier without one.
        base: models to start from.
        k: number of hits that are offered at most.
        lost: share of queries with a right tool on which it may abstain, 0 to 1.
        threshold: whether to choose the scores below which hits are dropped.
        progress: called with the number of searches done since the last call.

    Raises:
        RequestError: there are too few queries.
    """
    fingerprint = None if encoder is None else encoder.fingerprint
    usable = base.for_engine(fingerprint, rerankers)
    odds = odds_of_queries(encoder, usable, requests)
    other_tools = [
        _tools_of_other_servers(engine.catalog, event.relevant) if event.relevant else ()
        for event in requests
    ]
    models: dict[str, TierModel] = {}
    reports: dict[str, Report] = {}
    for tier in tiers:
        examples = list(ranked_examples(engine, requests, tier, odds, progress))
        negatives = list(_unserved_examples(engine, requests, tier, odds, other_tools))

        def fit(
            examples: Sequence[Example], negatives: Sequence[Example], tier: str = tier
        ) -> TierModel:
            return fit_tier(
                *(examples, negatives),
                base=usable.tiers.get(tier),
                reranker=rerankers.get(tier),
                k=k,
                lost=lost,
                threshold=threshold,
            )

        try:
            models[tier] = fit(examples, negatives)
            reports[tier] = cross_validate(examples, negatives, fit, k=k)
        except RequestError as error:
            raise RequestError(f"tier {tier!r}: {error}") from error
    start = {tier: "bundled" if tier in usable.tiers else "requests" for tier in tiers}
    origin = {"requests": len(requests), "lost": lost, "k": k, "start": start}
    decider = Decider(
        models,
        wording=usable.wording,
        encoder=fingerprint,
        origin=origin,
        personal=usable.personal,
    )
    return Calibration(decider, reports, start, sum(map(bool, other_tools)))


def ranked_examples(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tier: str,
    odds: Sequence[Mapping[str, float]],
    progress: Callable[[int], None] | None,
) -> Iterator[Example]:
    """The results of a tier for labelled queries.

    Args:
        engine: searches the catalog.
        requests: labelled queries.
        tier: name of the tier.
        odds: the result of `odds_of_queries`.
        progress: called with 1 after each search.
    """
    for number, event in enumerate(requests):
        selection = engine.view().search(event.query, tier=tier, k=HITS_MEASURED)
        vector_odds = odds[number] if selection.vector is not None else None
        yield Example.of(selection, event.relevant, odds=vector_odds, group=number)
        if progress:
            progress(1)


def odds_of_queries(
    encoder: Encoder | None, usable: Decider, requests: Sequence[UsageEvent]
) -> list[dict[str, float]]:
    """`Decider.vector_odds` of each query; empty without an encoder."""
    if encoder is None:
        return [{} for _ in requests]
    vectors = encoder.encode([event.query for event in requests], query=True)
    return [usable.vector_odds(vector) for vector in vectors]


def fit_tier(
    examples: Sequence[Example],
    negatives: Sequence[Example],
    *,
    base: TierModel | None,
    reranker: str | None,
    k: int,
    lost: float = DEFAULT_LOST_SHARE,
    threshold: bool = True,
) -> TierModel:
    """The calibration of one tier.

    Args:
        examples: answers to labelled queries.
        negatives: negative examples made from the same queries. They count for the abstention only.
        base: model to keep; None to fit a logistic model.
        reranker: name of the tier's reranker; None without one.
        k: number of hits that are offered at most.
        lost: share of queries with a right tool on which it may abstain.
        threshold: whether to choose a score below which hits are dropped.

    Raises:
        RequestError: there are too few queries.
    """
    # Empty answers offer nothing anyway.
    examples = [example for example in examples if len(example.right)]
    with_negatives = [*examples, *(example for example in negatives if len(example.right))]
    if not any(example.served for example in examples):
        raise RequestError("no query has a right tool in the catalog: nothing to calibrate on")
    model = base or _logistic(with_negatives, reranker)
    if base is None:
        probabilities = _held_out_probabilities(with_negatives, reranker)
    else:
        probabilities = np.array([base.probability(example.measured) for example in with_negatives])
    of_examples = probabilities[: len(examples)]
    served = np.array([example.served for example in examples])
    abstain_below = lowest_kept(of_examples[served], lost)
    answered = [
        example
        for example, probability in zip(examples, of_examples, strict=True)
        if probability >= abstain_below
    ]
    return TierModel(
        classifier=model.classifier,
        inputs=model.inputs,
        abstain_below=abstain_below,
        threshold=best_threshold(answered, k) if threshold else None,
        dense=model.dense,
        reranker=reranker,
        limits={share: lowest_kept(of_examples[served], share) for share in LOST_SHARES},
    )


def lowest_kept(values: NDArray[np.float64], lost: float) -> float:
    """The limit below which at most a share `lost` of new values of the same kind is expected.

    The limit is the value in place floor(lost (n + 1)) of the n sorted values, as in split
    conformal prediction (Lei et al. 2018).

    Args:
        values: shape (n,).
        lost: share of values that may be below, 0 to 1.

    Returns:
        One of the values; 0 if there are too few of them.
    """
    # 1e-9: a product such as 0.29 * 100 is a little below the whole number.
    below = int(lost * (len(values) + 1) + 1e-9) - 1
    return float(np.sort(values)[below]) if below >= 0 else 0.0


def best_threshold(examples: Sequence[Example], k: int) -> float | None:
    """The threshold with the highest F1, of those that leave a tool for every query.

    All hits of all examples count together: precision is the share of right tools among the offered
    hits, recall is the share of the right tools that are offered. The threshold is never above the
    best score of a query whose right tool was found: F1 alone would drop all hits of one query in
    four (ADR 9).

    Args:
        examples: answers to labelled queries on which the decision does not abstain.
        k: number of hits that are offered at most.

    Returns:
        The score of a hit; None if dropping hits does not raise F1.
    """
    best_scores = [example.scores[:k].max() for example in examples if example.right[:k].any()]
    scores = np.concatenate([example.scores[:k] for example in examples] or [np.empty(0)])
    right = np.concatenate([example.right[:k] for example in examples] or [np.empty(0, np.bool_)])
    relevant_count = sum(example.relevant_count for example in examples)
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    f1 = 2 * np.cumsum(right[order]) / (np.arange(1, len(scores) + 1) + relevant_count)
    # Hits of one score are offered together.
    last_of_score = np.append(scores[1:] != scores[:-1], True)[: len(scores)]
    highest = min(best_scores, default=-np.inf)
    allowed = np.flatnonzero(last_of_score & np.isfinite(scores) & (scores <= highest))
    if not len(allowed):
        return None
    best = allowed[np.flatnonzero(f1[allowed] == f1[allowed].max())[-1]]
    return float(scores[best]) if f1[best] > f1[-1] else None


def cross_validate(
    examples: Sequence[Example],
    negatives: Sequence[Example],
    fit: Callable[[Sequence[Example], Sequence[Example]], TierModel],
    *,
    k: int,
) -> Report:
    """The figures of a cross-validation: each part is measured by a model of the other parts.

    Args:
        examples: examples of one tier.
        negatives: negative examples made from the same queries. `fit` always gets them. They are
            measured only if a tool fits every query of `examples`.
        fit: function that fits a model to examples and negative examples.
        k: number of hits that are offered at most.

    Raises:
        RequestError: a part is too small for fitting.
    """
    part = parts_of([*examples, *negatives])
    of_examples, of_negatives = part[: len(examples)], part[len(examples) :]
    measured, measured_part = list(examples), of_examples
    if all(example.served for example in examples):
        measured, measured_part = [*examples, *negatives], part
    offers: list[_Offer] = []
    for fold in range(FOLD_COUNT):
        model = fit(
            _select(examples, of_examples != fold), _select(negatives, of_negatives != fold)
        )
        offers += [
            _offer(model, example, k) for example in _select(measured, measured_part == fold)
        ]
    return _report(offers, k)


def measure_fitted(examples: Sequence[Example], model: TierModel, *, k: int) -> Report:
    """Figures of a model that was fitted to other examples."""
    return _report([_offer(model, example, k) for example in examples], k)


def parts_of(examples: Sequence[Example], count: int = FOLD_COUNT) -> NDArray[np.int64]:
    """The part of each example, shape (n,); examples of one group are in the same part."""
    _, groups = np.unique([example.group for example in examples], return_inverse=True)
    parts = np.arange(groups.max(initial=-1) + 1) % count
    return np.random.default_rng(0).permutation(parts)[groups]


def check_parts(
    examples: Sequence[Example], part: NDArray[np.int64], count: int = FOLD_COUNT
) -> None:
    """Check that every part has enough examples of both kinds.

    Raises:
        RequestError: some part has too few.
    """
    served = np.array([example.served for example in examples], np.bool_)
    for kind, which in (("that a tool fits", served), ("that no tool fits", ~served)):
        if np.bincount(part[which], minlength=count).min() < _MIN_PER_PART:
            raise RequestError(
                f"too few queries {kind} to fit a model to: {which.sum()}; "
                f"at least {count * _MIN_PER_PART} are needed"
            )


def _logistic(examples: Sequence[Example], reranker: str | None) -> TierModel:
    """A logistic model of the measurements, without limits."""
    rows = np.array([[example.measured[name] for name in MEASUREMENTS] for example in examples])
    served = np.array([example.served for example in examples])
    dense = any(example.uses_vectors for example in examples)
    return TierModel(
        Classifier.fit(rows, served, ridge=_RIDGE),
        inputs=MEASUREMENTS,
        abstain_below=0.0,
        dense=dense,
        reranker=reranker,
    )


def _held_out_probabilities(
    examples: Sequence[Example], reranker: str | None
) -> NDArray[np.float64]:
    """For each example, the probability by a model that was fitted to the other parts."""
    part = parts_of(examples)
    check_parts(examples, part)
    probabilities = np.empty(len(examples))
    for fold in range(FOLD_COUNT):
        model = _logistic(_select(examples, part != fold), reranker)
        for number in np.flatnonzero(part == fold).tolist():
            probabilities[number] = model.probability(examples[number].measured)
    return probabilities


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a model offers for one example.

    Args:
        example: the measured answer.
        abstained: whether no hit is offered.
        offered: whether each hit is offered, shape (n,).
    """

    example: Example
    abstained: bool
    offered: NDArray[np.bool_]


def _offer(model: TierModel, example: Example, k: int) -> _Offer:
    listed = np.arange(len(example.right)) < k
    always_kept = np.isposinf(example.scores).any()
    any_fits = (
        bool(len(example.right)) and model.probability(example.measured) >= model.abstain_below
    )
    if not any_fits and not always_kept:
        return _Offer(example, True, np.zeros_like(listed))
    if model.threshold is not None:
        listed &= example.scores >= model.threshold
    return _Offer(example, not listed.any(), listed)


def _report(offers: Sequence[_Offer], k: int) -> Report:
    served = [offer for offer in offers if offer.example.served]
    answered = [offer for offer in served if not offer.abstained]
    unserved = [offer for offer in offers if not offer.example.served]
    abstained = [offer for offer in offers if offer.abstained]
    relevant_count = sum(offer.example.relevant_count for offer in served)
    within_k = [np.arange(len(offer.offered)) < k for offer in offers]
    return Report(
        served=len(served),
        unserved=len(unserved),
        found=_mean(
            [offer.example.right[:k].sum() / offer.example.relevant_count for offer in served]
        ),
        kept=_mean(
            [
                (offer.offered & offer.example.right).sum() / offer.example.relevant_count
                for offer in answered
            ]
        ),
        offered=_mean([offer.offered.sum() for offer in answered]),
        f1=_f1([(offer.example, offer.offered) for offer in offers], relevant_count),
        f1_of_all=_f1(
            [(offer.example, mask) for offer, mask in zip(offers, within_k, strict=True)],
            relevant_count,
        ),
        abstained=_mean([offer.abstained for offer in unserved]) if unserved else None,
        right=_mean([not offer.example.served for offer in abstained]) if abstained else None,
        lost=_mean([offer.abstained and offer.example.right[:k].any() for offer in served]),
    )


def _f1(offers: Sequence[tuple[Example, NDArray[np.bool_]]], relevant_count: int) -> float:
    right = sum(int((example.right & offered).sum()) for example, offered in offers)
    count = sum(int(offered.sum()) for _, offered in offers)
    return 2 * right / (count + relevant_count) if count + relevant_count else 0.0


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _select(examples: Sequence[Example], which: NDArray[np.bool_]) -> list[Example]:
    return [example for example, chosen in zip(examples, which, strict=True) if chosen]


def _unserved_examples(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tier: str,
    odds: Sequence[Mapping[str, float]],
    other_tools: Sequence[tuple[str, ...]],
) -> Iterator[Example]:
    """The queries, searched in the catalog without the servers of their tools."""
    for number, (event, tool_ids) in enumerate(zip(requests, other_tools, strict=True)):
        if tool_ids:
            selection = engine.view(allowed=tool_ids).search(
                event.query, tier=tier, k=HITS_MEASURED
            )
            vector_odds = odds[number] if selection.vector is not None else None
            yield Example.of(selection, (), odds=vector_odds, group=number)


def _tools_of_other_servers(catalog: Catalog, relevant: Sequence[str]) -> tuple[str, ...]:
    """Ids of the tools of other servers. Each tool without a server counts as one server."""
    servers = {catalog.get(tool_id).server or tool_id for tool_id in relevant}
    return tuple(tool.id for tool in catalog if (tool.server or tool.id) not in servers)
