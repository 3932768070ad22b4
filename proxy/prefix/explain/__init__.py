"""Reasons for which a cache read less than it could have."""
