"""Timestamps in the database: whole microseconds since the epoch (UTC)."""


def micros(seconds: float) -> int:
    """Seconds in whole microseconds, rounded."""
    return round(seconds * 1e6)


def seconds(micros: float) -> float:
    """Microseconds in seconds."""
    return micros / 1e6
