"""Warming of prefix caches: what is read ahead of calls, how much of it, what it gained."""
