"""A toy world small enough to train on in seconds."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

SERVERS = {
    "mail": ("letter", "inbox", "draft", "attachment"),
    "calendar": ("meeting", "reminder", "birthday", "holiday"),
    "files": ("folder", "document", "archive", "picture"),
    "music": ("song", "album", "playlist", "concert"),
}


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="session")
def toy_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two sets in the common form, `toy` and `plain` (no servers)."""
    root = tmp_path_factory.mktemp("sets")
    tools: list[dict[str, object]] = []
    queries: list[dict[str, object]] = []
    for server, things in SERVERS.items():
        for thing in things:
            for verb in ("find", "delete"):
                tool = f"{server}/{verb}_{thing}"
                tools.append(
                    {
                        "id": tool,
                        "name": f"{verb}_{thing}",
                        "server": server,
                        "description": f"{verb.title()} one {thing}. Works in the {server} app.",
                        "input_schema": {
                            "type": "object",
                            "properties": {f"{thing}_id": {"type": "string"}},
                        },
                    }
                )
                if thing != things[-1]:
                    word = {"find": "where is", "delete": "get rid of"}[verb]
                    queries.append(
                        {"query": f"{word} my {thing}", "relevant": [tool], "style": "natural"}
                    )
    queries.append(
        {"query": "lose the song, keep the album", "relevant": ["music/delete_song"], "style": ""}
    )
    queries.append({"query": "hello", "relevant": []})
    _write(root / "toy" / "tools.jsonl", tools)
    _write(root / "toy" / "queries.jsonl", queries)
    _write(root / "toy" / "judged_tools.jsonl", tools)
    plain = [
        {"id": f"t{i}", "name": f"compute{i}", "server": None, "description": f"Compute {i}."}
        for i in range(5)
    ]
    _write(root / "plain" / "tools.jsonl", [*plain])
    _write(
        root / "plain" / "queries.jsonl",
        [{"query": f"number {i % 5} of {i}", "relevant": [f"t{i % 5}"]} for i in range(50)],
    )
    return root


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory, toy_sets: Path) -> Path:
    """An untrained two-layer encoder that knows the words of the toy sets."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    from shortlist.lab.training.data import read_training_data

    logging.getLogger("transformers").setLevel(logging.ERROR)
    data = read_training_data(toy_sets)
    splitter = BertPreTokenizer()
    texts = [tool.text for tool in data.tools] + [request.text for request in data.requests]
    words = sorted({word for text in texts for word, _ in splitter.pre_tokenize_str(text)})
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = splitter
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    folder = tmp_path_factory.mktemp("start")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return folder
