"""Measuring selection: data sets, metrics, protocols, floors.

Everything here works through the public face of the package (an `Engine` and its `search`), so that
what is measured is what a user gets. README.md beside this file says how each figure is defined.
"""
