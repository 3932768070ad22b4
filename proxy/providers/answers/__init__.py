"""Reads usage, text and ends from answers of every API, for metering and planning; pure."""
