"""Objectives in a running gateway: counts calls, decides fallback levels, reroutes calls."""
