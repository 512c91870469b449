"""Build the reranker fixture: a random DeBERTa-v2 laid out as mxbai-rerank-xsmall-v1 is published.

Same architecture switches, same inputs (no token types), same files; only smaller. Needs the extra
``lab``. Rebuild the committed copy with ``python tests/models/build_tiny_reranker.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

from shortlist.lab.training.export import export_cross_encoder, quantize

QUERY = "delete a file"
TEXTS = (
    "delete file. Remove a file from the disk",
    "send message",
    "list the files of a folder, one page at a time, newest first, with size and owner",
    "",
    "delete delete delete",
)
WORDS = (
    "delete a file remove from the disk send message list files of folder one page at time newest "
    "first with size and owner , ."
).split()


def build_tokenizer() -> Tokenizer:
    """A word tokenizer with DeBERTa's special tokens and pair template."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(special + WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.enable_padding(length=32)
    return tokenizer


def build(folder: Path, seed: int = 2) -> list[float]:
    """Write the model into a folder and return the framework's scores of TEXTS for QUERY."""
    torch.manual_seed(seed)
    tokenizer = build_tokenizer()
    config = DebertaV2Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        type_vocab_size=0,
        relative_attention=True,
        max_relative_positions=-1,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        pooler_hidden_size=16,
        pooler_dropout=0,
        pooler_hidden_act="gelu",
        num_labels=1,
        initializer_range=0.25,
    )
    model = DebertaV2ForSequenceClassification(config).eval()
    export_cross_encoder(model, folder / "onnx" / "model.onnx")
    quantize(folder / "onnx" / "model.onnx", folder / "onnx" / "model_quantized.onnx")
    tokenizer.save(str(folder / "tokenizer.json"))
    config.architectures = ["DebertaV2ForSequenceClassification"]
    config.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64}))
    tokenizer.no_padding()
    scores = []
    with torch.inference_mode():
        for text in TEXTS:
            ids = torch.tensor([tokenizer.encode(QUERY, text).ids])
            scores.append(model(ids, torch.ones_like(ids)).logits.item())
    return scores


if __name__ == "__main__":
    target = Path(__file__).parent / "tiny_reranker"
    expected = {"query": QUERY, "texts": TEXTS, "scores": build(target)}
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
