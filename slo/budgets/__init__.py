"""Budgets, ceilings and the reservations that hold money for a call."""
