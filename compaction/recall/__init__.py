"""Recall of what was taken out: values that are named again, and messages that a model asks for."""
