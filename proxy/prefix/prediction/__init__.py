"""Predicts what a cache holds from what was sent, and compares calls."""
