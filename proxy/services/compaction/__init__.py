"""Compaction in a running gateway: which calls are folded, how far, and what it is worth."""
