"""Compaction in a running gateway: which calls are compacted, how far, and what it is worth."""
