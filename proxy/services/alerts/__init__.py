"""Delivers alerts: from the code that raises one, over the outbox, to each sink."""
