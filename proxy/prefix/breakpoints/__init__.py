"""Marks and keys where they pay: positions, policies, and the optimum they are held against."""
