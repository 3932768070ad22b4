"""Serves the answer to a question that was answered before, where that is proved; pure."""
