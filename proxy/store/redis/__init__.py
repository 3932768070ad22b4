"""Counters that replicas share in Redis, and their twins in the process."""
