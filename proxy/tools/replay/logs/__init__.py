"""Reads the logs that other tools write as recorded calls, by their fields."""
