"""Objectives as documents of OpenSLO v1, and back; what it cannot say stands in annotations."""
