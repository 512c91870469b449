"""Adapters for agent frameworks, one short file each."""
