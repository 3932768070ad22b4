"""Objectives, budgets, ceilings and prices, and the controller that follows them; pure."""
