"""Topics of a server: frequent words in the names of its tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from ..catalog import Tool
from ..text import identifiers_as_words

MAX_TOPICS = 6
"""Maximum number of topics."""
_MAX_LETTERS = 24
_STOP_WORDS = frozenset(
    "add all an and as at batch bulk by create delete for from get id in info into is list many "
    "multiple my name new of on one or per remove set the to tool update with".split()
)
_VERBS = frozenset(
    """abort accept access acknowledge activate add adjust aggregate analyse analyze annotate answer
    append apply approve archive ask assemble assess assign attach authenticate authorize back
    batch block book bookmark break bring browse build calculate call cancel capture categorize
    change check choose classify clean clear click clone close collect combine commit compare
    compile complete compose compress compute configure confirm connect construct consult convert
    copy count crawl create crop decode decrypt define delete deliver demonstrate deploy describe
    detect determine diagnose diff disable discard disconnect discover dismiss display download
    draft drag draw drop duplicate echo edit embed emulate enable encode encrypt end enrich enter
    enumerate erase estimate evaluate examine execute expand explain explore export extract fetch
    fill filter find finish flag follow forecast format forward freeze gather generate get give
    grant grep group guide handle hide highlight hover identify import increment index infer
    initialize inject insert inspect install interact invite invoke issue join keep kill label
    launch leave link list load locate lock log look lookup make manage map mark match measure
    merge message modify monitor mount move mute navigate notify obtain open optimize order
    organize parse pause pay perform pin ping place plan play plot poll populate post predict
    prepare press preview print process produce profile prompt propose provide publish pull purge
    push put query queue rank rate read reboot rebuild recommend record recover redo reduce refine
    refresh refund register reject release reload remind remove rename render reopen reorder repair
    replace reply report request require reschedule reserve reset resize resolve respond restart
    restore resume retrieve retry return reverse revert review revoke rewrite rotate route run
    sample save scan schedule scrape screenshot scroll search select send serve set share show shut
    sign simulate skip solve sort split stage star start stop store stream submit subscribe suggest
    summarise summarize suspend swap switch sync synchronize synthesise synthesize tag take tell
    terminate test toggle trace track train transcribe transfer transform translate trigger type
    unblock undo uninstall unlink unlock unmount unpin unstage unsubscribe update upgrade upload
    upsert use validate verify view visualize vote wait watch withdraw work write zip
    zoom""".split()
)
"""Verbs with which names of tools start."""
_PHRASE_SHARE = 0.5
"""A pair such as `pull request` replaces both words if it is this share of the uses of each."""


def topics(tools: Iterable[Tool]) -> tuple[str, ...]:
    """The most frequent objects in the tools' names, best first, ties in alphabetical order.

    A word of one tool alone is a topic only as the last word of its name: before that it qualifies
    another one. Numbers are no topics.

    Args:
        tools: tools of one server. Words of the server's name are left out.
    """
    single: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    spellings: dict[str, Counter[str]] = {}
    last_stems: set[str] = set()
    for tool in tools:
        stems = []
        for word in _objects(tool):
            stem = _stem(word)
            stems.append(stem)
            spellings.setdefault(stem, Counter())[word] += 1
        last_words = identifiers_as_words(tool.name).lower().split()[-1:]
        last_stems.update(map(_stem, last_words))
        single.update(set(stems))
        pairs.update(set(pairwise(stems)))
    for stem in [stem for stem, count in single.items() if count == 1 and stem not in last_stems]:
        del single[stem]
    return tuple(_most_frequent_spelling(phrase, spellings) for phrase in _phrases(single, pairs))


def _phrases(single: Counter[str], pairs: Counter[tuple[str, str]]) -> list[tuple[str, ...]]:
    """The words and pairs of words that are topics, most frequent first.

    Args:
        single: number of tools by word.
        pairs: number of tools by pair of words that follow each other.
    """
    pair_of_word: dict[str, tuple[str, str]] = {}
    for pair, count in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
        if count > 1 and all(count >= _PHRASE_SHARE * single[word] for word in pair):
            for word in pair:
                pair_of_word.setdefault(word, pair)
    phrases: dict[tuple[str, ...], None] = {}
    used: set[str] = set()
    for word, _ in sorted(single.items(), key=lambda item: (-item[1], item[0])):
        if word in used:
            continue
        phrase = pair_of_word.get(word, (word,))
        if used.isdisjoint(phrase):
            phrases[phrase] = None
            used.update(phrase)
        if len(phrases) == MAX_TOPICS:
            break
    return list(phrases)


def _objects(tool: Tool) -> list[str]:
    """The words of a name that are neither verbs nor words of the server's name."""
    server_stems = {_stem(word) for word in identifiers_as_words(tool.server or "").lower().split()}
    words = identifiers_as_words(tool.name).lower().split()
    name_words = [
        word[:_MAX_LETTERS]
        for position, (word, next_word) in enumerate(zip(words, [*words[1:], ""], strict=False))
        if len(word) > 1
        and word not in _STOP_WORDS
        and not (position == 0 and word in _VERBS)
        # `base64` is no base.
        and not (word.isdigit() or next_word.isdigit())
    ]
    return [word for word in name_words if _stem(word) not in server_stems]


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _most_frequent_spelling(phrase: tuple[str, ...], spellings: dict[str, Counter[str]]) -> str:
    """The most frequent spelling of a phrase."""
    return " ".join(
        min(spellings[stem].items(), key=lambda item: (-item[1], item[0]))[0] for stem in phrase
    )
