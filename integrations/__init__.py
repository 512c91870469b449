"""Agent frameworks: each one short file."""
