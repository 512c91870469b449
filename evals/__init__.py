"""Measuring selection: data sets, metrics, protocols, floors; and learning, which needs them.

Everything here uses only the public API (an `Engine` and its `search`), so the figures are those of
a user. Only `learning` makes engines in another way, from vectors that are there. README.md in this
folder defines each figure.
"""
