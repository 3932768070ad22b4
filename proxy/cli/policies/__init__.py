"""Commands for budgets, objectives, alerts and pins."""
