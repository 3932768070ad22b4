"""Engines as calls meet them: the state of their replicas, and the replica for each call."""
