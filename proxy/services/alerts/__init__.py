"""Alerts on their way: from whoever says one, over the outbox, to each sink that is to know."""
