"""Settings that people and planning change: layouts, compaction, budgets, pins, plans."""
