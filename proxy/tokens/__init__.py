"""Counts a text's tokens: exactly where the vocabulary is published, else by a learned ratio."""
