"""Counters that replicas share in Redis, and the same counters within one process."""
