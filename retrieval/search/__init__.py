"""The stages of one query, from its text to a Selection; `searcher` is the door."""
