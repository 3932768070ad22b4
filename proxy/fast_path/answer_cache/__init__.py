"""Answers that are given again to equal calls: their keys, their rules, their records; pure."""
