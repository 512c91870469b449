"""Purpose: whether what a sentence reaches for is what its tool is there for.

A vault names passwords and a chat its messages; an adder of numbers has no business with either.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

_TOPICS: Final = {
    "secret": (
        "off_topic_secret",
        re.compile(
            r"auth|log[ -]?in|sign[ -]?(?:in|up)|secret|vault|key|token|password|credential|"
            r"cookie|account|environment|\benv\b|config|ssh|payment|card|connect|session|"
            r"security|wallet"
        ),
    ),
    "secret_path": (
        "off_topic",
        re.compile(
            r"ssh|\benv\b|environment|secret|vault|credential|config|key|log[ -]?in|sign|auth|"
            r"aws|kube|docker|git|profile|mcp|dotfile|hosts|session"
        ),
    ),
    "context": (
        "off_topic",
        re.compile(
            r"chat|conversation|dialog|message|prompt|transcript|context|history|memory|"
            r"support|thread|feedback|agent|assistant|reason|think|summar|inbox|tools|llm|gpt|"
            r"\bai\b|generat|model|提示|对话"
        ),
    ),
    "private": (
        "off_topic",
        re.compile(
            r"contact|mail|photo|file|workspace|owner|person|document|browser|repositor|folder|"
            r"inbox|home|location|"
            r"data|record|microphone|camera|account|user|customer|director|profile"
        ),
    ),
    "path": (
        "off_topic_file",
        re.compile(
            r"file|path|folder|director|document|config|log|json|ya?ml|report|image|export|"
            r"import|script|package|project|database|sql|csv|pdf|repo|disk|save|load|upload|"
            r"storage"
        ),
    ),
}
"""Concept to what it becomes in a tool whose purpose does not speak of it, and words that do."""


_OWN_CALL: Final = re.compile(
    r"\b(?:before|prior to) ([a-z]{3,}?)ing(?: it| this)?(?=[.,;]|$)|\bbefore(?:hand)?(?=[.;]|$)"
)


def own_call(sentence: str, topic: str) -> bool:
    """Whether it says what comes before a call of this tool: "before editing", of one that edits.

    Args:
        sentence: in lower case.
        topic: name, title, server and first sentence of the tool, in lower case.
    """
    found = _OWN_CALL.search(sentence)
    return found is not None and (found[1] is None or found[1] in topic)


_OTHERS: Final = re.compile(r"\b(?:other|all|any|remaining) (?:of )?(?:the )?([a-z]{3,}) tools\b")


def own_server(sentence: str, topic: str) -> bool:
    """Whether the other tools it speaks of are of its server: "other shop tools" in a shop.

    Args:
        sentence: in lower case.
        topic: name, title, server and first sentence of the tool, in lower case.
    """
    found = _OTHERS.search(sentence)
    return found is not None and found[1] != "other" and found[1] in topic


def off_topic(concepts: Set[str], topic: str) -> Set[str]:
    """The concepts a sentence gains where it reaches beyond the purpose of its tool.

    Args:
        concepts: what the sentence speaks of.
        topic: name, title, server and first sentence of the tool, in lower case.
    """
    return {
        beyond
        for concept, (beyond, about) in _TOPICS.items()
        if concept in concepts and not about.search(topic)
    }
