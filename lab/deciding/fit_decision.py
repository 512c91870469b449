"""`python -m shortlist.lab.deciding.fit_decision`: fits the decision models of the package.

This is a command. No other module imports it.

The bundled encoder was trained on the requests that the models are fitted to. So right tools score
higher there than for new requests. `unseen` corrects this.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...catalog import Catalog
from ...catalog.tool_document import embedding_text
from ...config import Config, IndexConfig, TrustConfig
from ...decision import Decider
from ...decision.calibration import Example
from ...decision.classifier import Classifier
from ...decision.decider import BUNDLED_FILE, WORDING
from ...decision.measurements import HITS_MEASURED
from ...engine import Engine
from ...indexing.builder import Builder
from ...indexing.configured_tiers import strategies
from ...models import load_encoder
from ...models.loading import static_encoder
from ...retrieval.query import Ranking
from ...retrieval.search.query_run import QueryRun, Strategy
from ...retrieval.search.static_retriever import StaticRetriever
from ...retrieval.store.vectors import Vectors, text_key
from .decision_networks import balanced, fit_network, fit_network_tier
from .deployments import Deployment, Labelled, Source

_REQUESTS = Path(__file__).resolve().parents[1] / "training" / "requests"
NO_TOOL, PERSONAL = _REQUESTS / "no_tool.jsonl", _REQUESTS / "personal.jsonl"
SETS = ("mcp", "mcp_crawl")
DEPLOYMENTS = 80
UNSEEN = 0.14
"""Share of its right tools taken out of a request's vector; chosen so that the models fitted to
training sets know best what the development set's requests are."""
DEFAULT_LOST_SHARE = 0.009
"""Rate of served training requests that may be turned away. Requests that come are harder than
these: at this rate fewer than 3 % are turned away in each style of the development set."""
EASED = {"fast": 0.5}
"""Factor of the threshold below which a tier abstains. Static vectors know less of new requests
than of training requests: without it, `fast` turns 3.9 % of the development set away."""
_SMALL_TALK = 5.0
"""Weight of a query that no tool fits, in the model of sentences to and about the user."""
_FOLDS = 5
#: Networks averaged, and passes, of the head that reads vectors.
_MEMBERS, _EPOCHS = 6, 30


@dataclass(frozen=True, slots=True)
class _Told:
    """A tier for requests with given vectors."""

    tier: Strategy
    vector: NDArray[np.float32]
    static: NDArray[np.float32]

    @property
    def fallback(self) -> None:
        """None, so that a tier that cannot run is an error."""
        return None

    def rank(self, run: QueryRun) -> Ranking:
        """As the tier ranks."""
        run.query = replace(run.query, vector=self.vector)
        stage = run.retrievers["static"]
        if isinstance(stage, StaticRetriever):
            told: Any = _Vector(self.static)
            run.retrievers = {**run.retrievers, "static": replace(stage, encoder=told)}
        return self.tier.rank(run)


@dataclass(frozen=True, slots=True)
class _Vector:
    """Encodes any request as this vector."""

    vector: NDArray[np.float32]

    def encode(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:  # noqa: ARG002
        return self.vector[None]


def unseen(vector: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """A request's vector about as far from its tools as if the encoder had not been trained on it.

    Args:
        vector: vector of the request, shape (dim,).
        right: vectors of the tools that serve it, shape (n, dim).
    """
    further = vector - np.float32(UNSEEN) * right.mean(axis=0)
    distant: NDArray[np.float32] = further / np.linalg.norm(further)
    return distant


def wording(
    vectors: NDArray[np.float32], asks: NDArray[np.bool_], *, seed: int = 0
) -> tuple[Classifier, NDArray[np.float64]]:
    """Fits a model for whether a request asks for a tool at all.

    Args:
        vectors: vectors of requests, shape (n, dim).
        asks: whether each does, shape (n,).
        seed: random seed of the folds and the networks.

    Returns:
        What was fitted to all, and for each request the log-odds of a fit that had not seen it.
    """
    values = vectors.astype(np.float64)
    share = balanced(asks)
    folds = np.random.default_rng(seed).integers(0, _FOLDS, len(values))
    odds = np.empty(len(values))

    def fit(rows: NDArray[np.bool_]) -> Classifier:
        return fit_network(
            values[rows],
            asks[rows],
            share=share[rows],
            members=_MEMBERS,
            epochs=_EPOCHS,
            seed=seed,
        )

    for fold in range(_FOLDS):
        seen = folds != fold
        fitted = fit(seen)
        odds[~seen] = fitted(values[~seen])
    return fit(np.ones(len(values), np.bool_)), odds


def fit_personal(source: Source, personal: Sequence[str], *, seed: int = 0) -> Classifier:
    """Fits a model for whether a query is a sentence to or about the user.

    Args:
        source: requests that are no such sentences.
        personal: sentences that are.
        seed: random seed of the networks.

    Returns:
        A model with log-odds above 0 where such a sentence is assumed.
    """
    others = [*dict.fromkeys(one.text for one in (*source.requests, *source.no_tool))]
    small_talk = {one.text for one in source.no_tool}
    values = load_encoder().encode([*personal, *others], query=True).astype(np.float64)
    labels = np.arange(len(values)) < len(personal)
    weights = np.array([_SMALL_TALK if text in small_talk else 1.0 for text in others])
    share = balanced(labels) * np.concatenate([np.ones(len(personal)), weights])
    return fit_network(values, labels, share=share, members=3, epochs=_EPOCHS, seed=seed)


def read_personal(path: Path) -> list[str]:
    """The sentences of a file, JSON lines with `query`."""
    return [json.loads(line)["query"] for line in path.read_text(encoding="utf-8").splitlines()]


def bundle(
    source: Source,
    *,
    deployments: int = DEPLOYMENTS,
    only: Sequence[str] | None = None,
    seed: int = 0,
) -> Decider:
    """Models for the built-in tiers and the bundled encoder, the same from the same data.

    Args:
        source: tools and requests the encoder may have been trained on.
        deployments: how many catalogs are drawn.
        only: names of the tiers; all when absent.
        seed: random seed of everything drawn.
    """
    encoder = load_encoder()
    builder = Builder(Config(trust=TrustConfig(scan=False), index=IndexConfig(example_queries=())))
    tiers = {
        name: tier
        for name, tier in strategies(builder.config).items()
        if (only is None or name in only) and builder.config.tiers[name].reranker is None
    }
    static = static_encoder()
    texts = [embedding_text(tool) for tool in source.tools.values()]
    known = Vectors(encoder.encode(texts), tuple(map(text_key, texts)), encoder.fingerprint)
    rows = {tool_id: row for row, tool_id in enumerate(source.tools)}
    everything = (*source.requests, *source.no_tool)
    vectors = encoder.encode([one.text for one in everything], query=True)
    asks = np.array([bool(one.relevant) for one in everything])
    head, odds = wording(vectors, asks, seed=seed)
    examples: dict[str, list[Example]] = {tier: [] for tier in tiers}

    def ask(engine: Engine, one: Labelled, relevant: Sequence[str]) -> None:
        vector = vectors[one.number]
        looked_up = static.encode([one.text], query=True)[0]
        if relevant:
            right = [rows[tool_id] for tool_id in relevant]
            vector = unseen(vector, known.values[right])
            looked_up = unseen(looked_up, static.project(known.values[right]))
        for tier, strategy in tiers.items():
            found = engine.search(
                one.text, tier=_Told(strategy, vector, looked_up), k=HITS_MEASURED
            )
            odd = {WORDING: float(odds[one.number])}
            examples[tier].append(Example.of(found, relevant, odds=odd, group=one.number))

    for drawn in source.deployments(known.values, deployments, seed=seed):
        _ask_all(ask, Engine(builder, builder.begin(Catalog(drawn.tools), vectors=known)), drawn)
    fitted = {
        tier: fit_network_tier(
            some,
            dense="dense" in Config().tiers[tier].retrievers,
            lost=DEFAULT_LOST_SHARE,
            seed=seed,
        )
        for tier, some in examples.items()
    }
    fitted = {
        tier: replace(model, abstain_below=model.abstain_below * EASED.get(tier, 1.0))
        for tier, model in fitted.items()
    }
    origin = {
        "tools": len(source.tools),
        "requests": len(source.requests),
        "no_tool": len(source.no_tool),
        "deployments": deployments,
        "examples": {tier: len(some) for tier, some in examples.items()},
        "lost": DEFAULT_LOST_SHARE,
        "unseen": UNSEEN,
        "eased": EASED,
        "seed": seed,
    }
    return Decider(fitted, head, encoder.fingerprint, origin=origin)


def _ask_all(ask: Any, engine: Engine, drawn: Deployment) -> None:
    for one in drawn.served:
        ask(engine, one, one.relevant)
    for one in (*drawn.elsewhere, *drawn.no_tool):
        ask(engine, one, ())


def _beside(there: Decider, made: Decider) -> Decider:
    """The models that are there with those made of single tiers."""
    examples = {**there.origin["examples"], **made.origin["examples"]}
    origin = {**there.origin, "examples": examples}
    return replace(there, tiers={**there.tiers, **made.tiers}, origin=origin)


def main() -> None:
    """Fit the models and write them."""
    parser = argparse.ArgumentParser(description="Fit the bundled decision, and write it.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the training sets")
    parser.add_argument("--no-tool", type=Path, default=NO_TOOL, help="queries that no tool fits")
    parser.add_argument(
        "--personal", type=Path, default=PERSONAL, help="sentences to and about the user"
    )
    parser.add_argument("--out", type=Path, default=BUNDLED_FILE, help="file to write")
    parser.add_argument("--deployments", type=int, default=DEPLOYMENTS)
    parser.add_argument(
        "--tier", action="append", help="fit only this tier and keep the others of --out"
    )
    parser.add_argument(
        "--only-personal",
        action="store_true",
        help="fit only the model of sentences to and about the user, and keep the rest of --out",
    )
    asked = parser.parse_args()
    folders = [asked.data / name for name in SETS]
    source, personal = Source.read(folders, asked.no_tool), read_personal(asked.personal)
    files = [folder / name for folder in folders for name in ("tools.jsonl", "queries.jsonl")]
    digests = {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in (*files, asked.no_tool, asked.personal)
    }
    if asked.only_personal:
        decider = Decider.load(asked.out)
    else:
        decider = bundle(source, deployments=asked.deployments, only=asked.tier)
        if asked.tier:
            decider = _beside(Decider.load(asked.out), decider)
    origin = {**decider.origin, "personal": len(personal), "files": digests}
    decider = replace(decider, personal=fit_personal(source, personal), origin=origin)
    decider.save(asked.out)
    sys.stderr.write(f"{asked.out}: {asked.out.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
