from __future__ import annotations

from shortlist.loaders.lru_cache import LruCache


def test_what_was_used_longest_ago_is_dropped():
    kept: LruCache[str, int] = LruCache(2)
    assert kept.put("a", 1) == 1
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c"), len(kept)) == (1, None, 3, 2)
