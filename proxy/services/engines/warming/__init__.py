"""Warms idle replicas: what is read ahead there, as which call, at what cost and gain."""
