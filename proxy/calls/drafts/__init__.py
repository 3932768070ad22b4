"""Drafts of a small model that a stream's caller reads while the model asked for answers."""
