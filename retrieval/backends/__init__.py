"""Lexical and dense indexes, one file each; `protocols` says what a backend must offer."""
