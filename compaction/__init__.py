"""Compaction of conversations without losing what later turns need; pure."""
