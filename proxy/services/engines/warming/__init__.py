"""Warms idle replicas: reads prompts ahead of calls, and counts the cost and the gain."""
