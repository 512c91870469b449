"""An index on disk.

`versions` writes and reads it; vectors by text, and the rescue of a damaged one.
"""
