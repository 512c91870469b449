"""A tool that destroys is not first where nobody asked for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from ...catalog import Tool
from ...text import search_terms
from ..id_lookup import terms_of_name
from ..query import Ranking, is_question

# A tool takes the place of one that destroys if its score is at least this share of the best. With
# 0.85, no query of the development sets lost its tool in `hybrid` (ADR 33).
_MIN_SCORE_SHARE = 0.85
# Verbs of names. An annotation says no more than that something is changed.
_DESTRUCTIVE_VERBS = (
    *("delete", "remove", "reset", "drop", "destroy", "purge", "erase", "wipe", "clear", "trash"),
    *("kill", "uninstall", "revoke", "truncate", "unpublish", "cancel"),
)
# Words of queries that may ask for destruction: these verbs, others, and those of twelve languages.
_DESTRUCTION = re.compile(
    rf"\b(?:{'|'.join(verb.removesuffix('e') for verb in _DESTRUCTIVE_VERBS)}"
    r"|discard|throw|threw|forget|unsubscrib|empty|clean|undo"
    r"|revert|roll|nuk|yeet|clos|terminat|stop|end|leav|unlink|detach|tak|dump|prun|cut"
    r"|kick|ban|disabl|rid|away|gone|without|no longer)(?:[a-z]?ed|e?s|[a-z]?ing|en?|n)?\b"
    r"|\b(?:l[oö]sch|entfern|verwirf|leer|supprim|effac|enl[eè]v|vide|borr|elimin|quit|vac[ií]"
    r"|apag|exclu|limp|cancell|rimuov|svuot|togli|usu[nń]|skasuj|kasuj|wyczy|sil|kald[ıi]r"
    r"|temizle|удал|стер|стир|убер|убра|очист|сброс)|削除|消し|消す|消去|取り消|删|刪|清除|清空|移除|重置|取消"
    r"|삭제|지워|지우|제거|비우|احذف|حذف|امسح|مسح|أزل|إزالة|ألغ|تفريغ",
    re.IGNORECASE,
)


def harmless_first(ranking: Ranking, query: str, tools: Sequence[Tool]) -> Ranking:
    """The ranking with a tool that destroys nothing first, if one is nearly as good.

    Where the query may ask for destruction, the ranking stays. A question never does: "which runs
    were cancelled?".

    Args:
        ranking: best first.
        query: the query.
        tools: tools by row.
    """
    if not len(ranking) or not _destroys(tools[ranking.rows[0]]):
        return ranking
    if ranking.scores[0] <= 0 or (_DESTRUCTION.search(query) and not is_question(query)):
        return ranking
    near = int((ranking.scores >= _MIN_SCORE_SHARE * ranking.scores[0]).sum())
    for place, row in enumerate(ranking.rows[:near].tolist()):
        if not _destroys(tools[row]):
            # It has the best score too.
            order = np.concatenate([[place], np.delete(np.arange(len(ranking)), place)])
            scores = np.concatenate([ranking.scores[:1], np.delete(ranking.scores, place)])
            return replace(ranking, rows=ranking.rows[order], scores=scores)
    return ranking


def _destroys(tool: Tool) -> bool:
    return not _destructive_terms().isdisjoint(terms_of_name(tool.name))


@cache
def _destructive_terms() -> frozenset[str]:
    return frozenset(term for verb in _DESTRUCTIVE_VERBS for term in search_terms(verb))
