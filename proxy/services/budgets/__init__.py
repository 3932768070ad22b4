"""Budgets in a running gateway: reserves before a call is sent, and settles after it."""
