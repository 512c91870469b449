"""Measuring selection: data sets, metrics, protocols, floors.

Everything here uses only the public API (an `Engine` and its `search`), so the figures are those of
a user. README.md in this folder defines each figure.
"""
