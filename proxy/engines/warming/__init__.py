"""Warming of prefix caches: which prompts are read ahead of calls, the budget, and the gain."""
