"""Timestamps in the database: whole microseconds since the epoch (UTC)."""

from sqlalchemy import BigInteger, Dialect, Integer
from sqlalchemy.types import TypeDecorator


def micros(seconds: float) -> int:
    """Seconds in whole microseconds, rounded."""
    return round(seconds * 1e6)


def seconds(micros: float) -> float:
    """Microseconds in seconds."""
    return micros / 1e6


class Timestamp(TypeDecorator[float]):
    """A column whose values are seconds here, and microseconds in the database."""

    impl = BigInteger().with_variant(Integer, "sqlite")
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> int | None:
        """The value as it is stored."""
        return None if value is None else micros(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> float | None:
        """The value in seconds."""
        return None if value is None else seconds(value)
