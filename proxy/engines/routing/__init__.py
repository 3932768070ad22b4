"""Routing over the replicas of an engine: each prompt goes where most of its prefix is cached."""
