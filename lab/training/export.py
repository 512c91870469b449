"""Export encoders and cross-encoders to ONNX and quantise them.

The traced graph is quantised without changes, because ONNX Runtime fuses dynamic quantisation with
each product when it opens the file. Fusing attention first, with onnxruntime.transformers, was
slower and less accurate: its int8 attention kernel has no prepacked per-channel product. Needs the
extra ``lab``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from .single import PooledText, SingleText

Pooling = Literal["mean", "cls"]

_OPSET = 17


def _mean(hidden: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Mean (batch, dim) over the tokens of (batch, sequence, dim) that the mask keeps."""
    mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


class PooledEncoder(torch.nn.Module):
    """A transformer, the pooling of its last layer, and L2 normalisation, as one module.

    Args:
        transformer: a Hugging Face encoder.
        pooling: ``mean`` over the tokens the mask keeps, or the first (``cls``) token.
    """

    def __init__(self, transformer: Any, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.transformer = transformer
        self.pooling = pooling

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Embed token ids (batch, sequence) as unit vectors (batch, dim)."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        hidden = self.transformer(
            input_ids=input_ids, attention_mask=attention_mask, **types
        ).last_hidden_state
        pooled = hidden[:, 0] if self.pooling == "cls" else _mean(hidden, attention_mask)
        return torch.nn.functional.normalize(pooled, dim=-1)


class _Logits(torch.nn.Module):
    """A sequence classifier reduced to its logits."""

    def __init__(self, classifier: Any) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> Any:
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.classifier(input_ids=input_ids, attention_mask=attention_mask, **types).logits


class PooledScorer(torch.nn.Module):
    """A transformer over pairs, mean pooling and a linear head, as one module.

    Args:
        transformer: a Hugging Face encoder.
        head: layer from the transformer's width to one logit.
    """

    def __init__(self, transformer: Any, head: torch.nn.Linear) -> None:
        super().__init__()
        self.transformer = transformer
        self.head = head

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor,
    ) -> torch.Tensor:
        """Logits (batch, 1) of token ids (batch, sequence)."""
        hidden = self.transformer(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        logits: torch.Tensor = self.head(_mean(hidden, attention_mask))
        return logits


def export_encoder(transformer: Any, path: Path, *, pooling: Pooling = "mean") -> None:
    """Write an encoder as fp32 ONNX whose output ``embedding`` (batch, dim) has unit norm.

    Args:
        transformer: a Hugging Face encoder, loaded with ``attn_implementation="eager"``.
        path: the file to write.
        pooling: how the last layer becomes one vector.
    """
    _trace_batch(PooledEncoder(transformer, pooling), transformer.config, path, "embedding")


def export_text(text: SingleText, path: Path) -> None:
    """Write an encoder as fp32 ONNX that takes one text: ids in, ``embedding`` (1, dim) out.

    Args:
        text: the encoder.
        path: the file to write.
    """
    ids = torch.ones((1, 11), dtype=torch.long)
    _trace(PooledText(text), (ids,), path, {"input_ids": {1: "sequence"}}, {"embedding": {}})


def export_scorer(transformer: Any, head: torch.nn.Linear, path: Path) -> None:
    """Write a `PooledScorer` as fp32 ONNX with the output ``logits`` (batch, 1).

    Args:
        transformer: a Hugging Face encoder, loaded with ``attn_implementation="eager"``.
        head: layer from the transformer's width to one logit.
        path: the file to write.
    """
    _trace_batch(PooledScorer(transformer, head), transformer.config, path, "logits")


def export_cross_encoder(classifier: Any, path: Path) -> None:
    """Write a sequence classifier as fp32 ONNX with the output ``logits`` (batch, labels).

    Args:
        classifier: a Hugging Face ``...ForSequenceClassification``, loaded with
            ``attn_implementation="eager"`` where the architecture has the choice.
        path: the file to write.
    """
    _trace_batch(_Logits(classifier), classifier.config, path, "logits")


def quantize(source: Path, destination: Path) -> None:
    """Quantise fp32 ONNX to dynamic int8: signed weights with one scale per output channel.

    Signed per-channel weights are both closer to fp32 and, on CPUs with VNNI, about twice as fast
    as the unsigned per-tensor default. Embedding tables are quantised as well, a cross-encoder's
    head is not: it is small.

    Args:
        source: the fp32 file.
        destination: the int8 file to write.
    """
    names = [node.name for node in onnx.load(str(source)).graph.node]
    quantize_dynamic(
        source,
        destination,
        nodes_to_exclude=[name for name in names if name.startswith("/head/")],
        weight_type=QuantType.QInt8,
        per_channel=True,
    )


def _trace_batch(module: torch.nn.Module, config: Any, path: Path, output: str) -> None:
    names = ["input_ids", "attention_mask"]
    if config.type_vocab_size > 1:
        names.append("token_type_ids")
    ids = torch.ones((2, 11), dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    example = (ids, mask, torch.zeros_like(ids))[: len(names)]
    inputs = {name: {0: "batch", 1: "sequence"} for name in names}
    _trace(module, example, path, inputs, {output: {0: "batch"}})


def _trace(
    module: torch.nn.Module,
    example: tuple[torch.Tensor, ...],
    path: Path,
    inputs: Mapping[str, dict[int, str]],
    outputs: Mapping[str, dict[int, str]],
) -> None:
    """Write the graph of a call, for inputs and outputs with the given variable axes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # The tracer warns about every Python branch it flattens and about its own retirement; the
        # newer exporter writes graphs that ONNX Runtime's quantisation fusions do not recognise.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            example,
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={**inputs, **outputs},
            opset_version=_OPSET,
            dynamo=False,
        )
