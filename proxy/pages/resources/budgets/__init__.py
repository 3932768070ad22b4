"""Resources of budgets: their counters, those that people set, those of keys."""
