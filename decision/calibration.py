"""Calibrates the decision to a catalog, from labelled queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import RequestError
from ..retrieval.search.answer import split_at
from ..retrieval.selection import Selection
from ..retrieval.usage import UsageEvent
from .classifier import Classifier
from .decider import WORDING, Decider, TierModel
from .measurements import DEPTH, MEASUREMENTS, measure

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..models import Encoder

LOST = 0.0275
"""Default share of queries with a right tool on which the decision may abstain."""
#: Parts of the examples, of which each is measured once by what was fitted to the others.
FOLDS = 5
#: Examples of each kind that every part needs for fitting.
_LEAST = 2
#: Precision of the weights of a logistic model; of 1 to 300, it found the most queries that no tool
#: fits on the development set, with all of its queries and with 120.
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
        measured: measurements of the answer, and `wording` if it is known.
        scores: final score of each hit, shape (n,): inf for a hit that no threshold drops, -inf
            for one that every threshold drops.
        right: whether each hit is right, shape (n,).
        due: number of right tools; 0 if no tool fits.
        dense: whether a dense stage found any of the hits.
        group: number of the query. Examples of one query are always on the same side of a split.
    """

    measured: Mapping[str, float]
    scores: NDArray[np.float64]
    right: NDArray[np.bool_]
    due: int
    dense: bool
    group: int

    @classmethod
    def of(
        cls,
        selection: Selection,
        relevant: Collection[str],
        *,
        wording: float | None = None,
        group: int = 0,
    ) -> Self:
        """Measure an answer.

        Args:
            selection: an answer with `DEPTH` hits if possible.
            relevant: ids of the right tools.
            wording: log-odds, from its vector, that the query asks for a tool; None if unknown.
            group: see the class.
        """
        hits = selection.ranked[:DEPTH]
        measured = measure(selection.query, hits)
        if wording is not None:
            measured[WORDING] = wording
        always_kept = {hit.id for hit in split_at(np.inf, hits)[0]}
        never_kept = {hit.id for hit in split_at(-np.inf, hits)[1]}
        scores = [
            np.inf if hit.id in always_kept else -np.inf if hit.id in never_kept else hit.score
            for hit in hits
        ]
        return cls(
            measured=measured,
            scores=np.array(scores, np.float64),
            right=np.array([hit.id in relevant for hit in hits], np.bool_),
            due=len(relevant),
            dense=any("dense" in hit.stages for hit in hits),
            group=group,
        )

    @property
    def served(self) -> bool:
        """Whether any tool fits the query."""
        return self.due > 0


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
        reports: tier to its figures, on queries that were not used for fitting.
        start: tier to the origin of its model: `bundled` (only the limits below which it abstains
            and drops hits are new) or `requests` (a logistic model of these queries).
        without: number of queries searched again without the servers of their tools.
    """

    decider: Decider
    reports: dict[str, Report]
    start: dict[str, str]
    without: int


def calibrate(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tiers: Sequence[str],
    *,
    encoder: Encoder | None,
    rerankers: Mapping[str, str | None],
    base: Decider,
    k: int,
    lost: float = LOST,
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
    wording = wording_odds(encoder, usable, requests)
    rest = [_without(engine.catalog, one.relevant) if one.relevant else () for one in requests]
    models: dict[str, TierModel] = {}
    reports: dict[str, Report] = {}
    for tier in tiers:
        examples = list(ranked_examples(engine, requests, tier, wording, progress))
        made = list(_unserved(engine, requests, tier, wording, rest))

        def fit(
            examples: Sequence[Example], made: Sequence[Example], tier: str = tier
        ) -> TierModel:
            return fit_tier(
                *(examples, made),
                base=usable.tiers.get(tier),
                reranker=rerankers.get(tier),
                k=k,
                lost=lost,
                threshold=threshold,
            )

        try:
            models[tier] = fit(examples, made)
            reports[tier] = cross_validate(examples, made, fit, k=k)
        except RequestError as error:
            raise RequestError(f"tier {tier!r}: {error}") from error
    start = {tier: "bundled" if tier in usable.tiers else "requests" for tier in tiers}
    origin = {"requests": len(requests), "lost": lost, "k": k, "start": start}
    decider = Decider(models, usable.wording, fingerprint, origin=origin)
    return Calibration(decider, reports, start, sum(map(bool, rest)))


def ranked_examples(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tier: str,
    wording: Sequence[float | None],
    progress: Callable[[int], None] | None,
) -> Iterator[Example]:
    """The results of a tier for labelled queries.

    Args:
        engine: searches the catalog.
        requests: labelled queries.
        tier: name of the tier.
        wording: log-odds of each query that it asks for a tool; None if unknown.
        progress: called with 1 after each search.
    """
    for at, one in enumerate(requests):
        found = engine.view().search(one.query, tier=tier, k=DEPTH)
        yield Example.of(found, one.relevant, wording=wording[at], group=at)
        if progress:
            progress(1)


def wording_odds(
    encoder: Encoder | None, usable: Decider, requests: Sequence[UsageEvent]
) -> list[float | None]:
    """Log-odds of each query, from its vector, that it asks for a tool; None if unknown."""
    if encoder is None or usable.wording is None:
        return [None] * len(requests)
    vectors = encoder.encode([one.query for one in requests], query=True)
    return [float(odds) for odds in usable.wording(vectors)]


def fit_tier(
    examples: Sequence[Example],
    made: Sequence[Example],
    *,
    base: TierModel | None,
    reranker: str | None,
    k: int,
    lost: float = LOST,
    threshold: bool = True,
) -> TierModel:
    """The calibration of one tier.

    Args:
        examples: answers to labelled queries.
        made: negative examples made from the same queries. They count for the abstention only.
        base: model to keep; None to fit a logistic model.
        reranker: name of the tier's reranker; None without one.
        k: number of hits that are offered at most.
        lost: share of queries with a right tool on which it may abstain.
        threshold: whether to choose a score below which hits are dropped.

    Raises:
        RequestError: there are too few queries.
    """
    # Empty answers offer nothing anyway.
    examples = [one for one in examples if len(one.right)]
    every = [*examples, *(one for one in made if len(one.right))]
    if not any(one.served for one in examples):
        raise RequestError("no query has a right tool in the catalog: nothing to calibrate on")
    model = base or _logistic(every, reranker)
    if base is None:
        fits = _fits_held_out(every, reranker)
    else:
        fits = np.array([base.probability(one.measured) for one in every])
    of_examples = fits[: len(examples)]
    served = np.array([one.served for one in examples])
    abstain_below = lowest_kept(of_examples[served], lost)
    answered = [one for one, fit in zip(examples, of_examples, strict=True) if fit >= abstain_below]
    return TierModel(
        fits=model.fits,
        inputs=model.inputs,
        abstain_below=abstain_below,
        threshold=best_threshold(answered, k) if threshold else None,
        dense=model.dense,
        reranker=reranker,
    )


def lowest_kept(values: NDArray[np.float64], lost: float) -> float:
    """The value below which at most a share `lost` of further values is expected.

    The quantile of split conformal prediction (Lei et al. 2018): at most floor(lost (n + 1)) - 1 of
    the n values are below.

    Args:
        values: shape (n,).
        lost: share of values that may be below, 0 to 1.

    Returns:
        One of the values; 0 if they are too few.
    """
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
    best_scores = [one.scores[:k].max() for one in examples if one.right[:k].any()]
    scores = np.concatenate([one.scores[:k] for one in examples] or [np.empty(0)])
    right = np.concatenate([one.right[:k] for one in examples] or [np.empty(0, np.bool_)])
    due = sum(one.due for one in examples)
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    f1 = 2 * np.cumsum(right[order]) / (np.arange(1, len(scores) + 1) + due)
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
    made: Sequence[Example],
    fit: Callable[[Sequence[Example], Sequence[Example]], TierModel],
    *,
    k: int,
) -> Report:
    """Fit to all parts but one and measure on that one, for each part.

    Args:
        examples: examples of one tier.
        made: negative examples made from those of the same groups. They are always used for
            fitting, and for measuring only if `examples` has no negative ones.
        fit: function that fits a model to examples and negative examples.
        k: number of hits that are offered at most.

    Raises:
        RequestError: a part is too small for fitting.
    """
    part = parts_of([*examples, *made])
    of_examples, of_made = part[: len(examples)], part[len(examples) :]
    judged, judged_part = list(examples), of_examples
    if all(one.served for one in examples):
        judged, judged_part = [*examples, *made], part
    offers: list[_Offer] = []
    for fold in range(FOLDS):
        model = fit(_chosen(examples, of_examples != fold), _chosen(made, of_made != fold))
        offers += [_offer(model, one, k) for one in _chosen(judged, judged_part == fold)]
    return _report(offers, k)


def measure_fitted(examples: Sequence[Example], model: TierModel, *, k: int) -> Report:
    """Figures of a model that was fitted to other examples."""
    return _report([_offer(model, one, k) for one in examples], k)


def parts_of(examples: Sequence[Example], count: int = FOLDS) -> NDArray[np.int64]:
    """The part of each example, shape (n,); examples of one group are in the same part."""
    _, groups = np.unique([one.group for one in examples], return_inverse=True)
    parts = np.arange(groups.max(initial=-1) + 1) % count
    return np.random.default_rng(0).permutation(parts)[groups]


def check_parts(examples: Sequence[Example], part: NDArray[np.int64], count: int = FOLDS) -> None:
    """Check that every part has enough examples of both kinds.

    Raises:
        RequestError: some part has too few.
    """
    served = np.array([one.served for one in examples], np.bool_)
    for kind, which in (("that a tool fits", served), ("that no tool fits", ~served)):
        if np.bincount(part[which], minlength=count).min() < _LEAST:
            raise RequestError(
                f"too few queries {kind} to fit a model to: {which.sum()}; "
                f"at least {count * _LEAST} are needed"
            )


def _logistic(examples: Sequence[Example], reranker: str | None) -> TierModel:
    """A logistic model of the measurements, without limits."""
    rows = np.array([[one.measured[name] for name in MEASUREMENTS] for one in examples])
    served = np.array([one.served for one in examples])
    dense = any(one.dense for one in examples)
    return TierModel(
        Classifier.fit(rows, served, ridge=_RIDGE),
        inputs=MEASUREMENTS,
        abstain_below=0.0,
        dense=dense,
        reranker=reranker,
    )


def _fits_held_out(examples: Sequence[Example], reranker: str | None) -> NDArray[np.float64]:
    """For each example, the probability by a model that was fitted to the other parts."""
    part = parts_of(examples)
    check_parts(examples, part)
    fits = np.empty(len(examples))
    for fold in range(FOLDS):
        model = _logistic(_chosen(examples, part != fold), reranker)
        for at in np.flatnonzero(part == fold).tolist():
            fits[at] = model.probability(examples[at].measured)
    return fits


@dataclass(frozen=True, slots=True)
class _Offer:
    example: Example
    abstained: bool
    offered: NDArray[np.bool_]


def _offer(model: TierModel, one: Example, k: int) -> _Offer:
    listed = np.arange(len(one.right)) < k
    always_kept = np.isposinf(one.scores).any()
    fits = bool(len(one.right)) and model.probability(one.measured) >= model.abstain_below
    if not fits and not always_kept:
        return _Offer(one, True, np.zeros_like(listed))
    if model.threshold is not None:
        listed &= one.scores >= model.threshold
    return _Offer(one, not listed.any(), listed)


def _report(offers: Sequence[_Offer], k: int) -> Report:
    served = [one for one in offers if one.example.served]
    answered = [one for one in served if not one.abstained]
    unserved = [one for one in offers if not one.example.served]
    abstained = [one for one in offers if one.abstained]
    due = sum(one.example.due for one in served)
    first = [np.arange(len(one.offered)) < k for one in offers]
    return Report(
        served=len(served),
        unserved=len(unserved),
        found=_mean([one.example.right[:k].sum() / one.example.due for one in served]),
        kept=_mean([(one.offered & one.example.right).sum() / one.example.due for one in answered]),
        offered=_mean([one.offered.sum() for one in answered]),
        f1=_f1([(one.example, one.offered) for one in offers], due),
        f1_of_all=_f1([(one.example, at) for one, at in zip(offers, first, strict=True)], due),
        abstained=_mean([one.abstained for one in unserved]) if unserved else None,
        right=_mean([not one.example.served for one in abstained]) if abstained else None,
        lost=_mean([one.abstained and one.example.right[:k].any() for one in served]),
    )


def _f1(offers: Sequence[tuple[Example, NDArray[np.bool_]]], due: int) -> float:
    right = sum(int((example.right & offered).sum()) for example, offered in offers)
    count = sum(int(offered.sum()) for _, offered in offers)
    return 2 * right / (count + due) if count + due else 0.0


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _chosen(examples: Sequence[Example], which: NDArray[np.bool_]) -> list[Example]:
    return [one for one, chosen in zip(examples, which, strict=True) if chosen]


def _unserved(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tier: str,
    wording: Sequence[float | None],
    rest: Sequence[tuple[str, ...]],
) -> Iterator[Example]:
    """The queries, searched in the catalog without the servers of their tools."""
    for at, (one, others) in enumerate(zip(requests, rest, strict=True)):
        if others:
            found = engine.view(allowed=others).search(one.query, tier=tier, k=DEPTH)
            yield Example.of(found, (), wording=wording[at], group=at)


def _without(catalog: Catalog, relevant: Sequence[str]) -> tuple[str, ...]:
    """Ids of the tools of other servers. Each tool without a server counts as one server."""
    servers = {catalog.get(tool_id).server or tool_id for tool_id in relevant}
    return tuple(tool.id for tool in catalog if (tool.server or tool.id) not in servers)
