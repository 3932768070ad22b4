"""Engines: their command lines, where they answer, and the names of their metrics."""
