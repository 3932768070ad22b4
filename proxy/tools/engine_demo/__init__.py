"""The demonstration of a self-hosted engine: a tiny model of our own, on processors alone."""
