"""Shortening conversations without losing what they promised; pure."""
