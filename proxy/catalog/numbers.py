"""Reads prices, factors, days and hours of a catalog as exact numbers, never as floats."""

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction

from slo.decimals import normalize_decimal
from slo.price import PeakWindow
from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import describe_value

_NANOS = 1_000_000_000
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,30})?")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WINDOW = re.compile(
    rf"({'|'.join(_DAYS)})(?:-({'|'.join(_DAYS)}))? (\d\d):([0-5]\d)-(\d\d):([0-5]\d)"
)
_DAY_S = 24 * 3600


def factor(node: Node, problems: list[Problem]) -> Fraction | None:
    """A decimal of 0 or more, exactly; None if it is none."""
    value = node.value
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and _DECIMAL.fullmatch(text):
        return Fraction(text)
    if isinstance(value, str | int | Decimal) and str(value).startswith("-"):
        problems.append(node.problem("is negative", "write 0 or more"))
    else:
        what = f"is {describe_value(value)}, not a decimal string"
        problems.append(node.problem(what, f"write {_suggestion(value)}"))
    return None


def _suggestion(value: object) -> str:
    """The value as it should be written, where that can be told; else an example."""
    suggestion = normalize_decimal(value)
    return f'"{suggestion}"' if _DECIMAL.fullmatch(suggestion) else '"2.50"'


def nanos(node: Node, problems: list[Problem]) -> int | None:
    """US dollars as nano-dollars; None if it is no price, or one that nano-dollars cannot say."""
    dollars = factor(node, problems)
    if dollars is None:
        return None
    exact = dollars * _NANOS
    if exact.denominator != 1:
        problems.append(node.problem("has more than 9 decimals", "write at most 9"))
        return None
    return exact.numerator


def discount(node: Node, problems: list[Problem]) -> Fraction:
    """The part taken off a price, 0 to 1; 0 if it is none."""
    part = factor(node, problems)
    if part is not None and part > 1:
        problems.append(node.problem("is over 1", 'write "0.12" for 12 percent'))
        return Fraction(0)
    return part or Fraction(0)


def timestamp(node: Node, problems: list[Problem]) -> float | None:
    """The start of a day in UTC, or a time with its zone, in seconds since the epoch."""
    value = node.value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp()
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC).timestamp()
    fix = "write a day, such as 2026-12-01, or a time with its zone: 2026-12-01T08:00:00Z"
    problems.append(node.problem(f"is {describe_value(value)}", fix))
    return None


def days_since_epoch(value: date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - date(1970, 1, 1).toordinal()


def peak_window(node: Node, problems: list[Problem]) -> PeakWindow | None:
    """Hours of weekdays, such as ``Mon-Fri 01:00-04:00``; None if it is no such thing."""
    match = _WINDOW.fullmatch(node.value) if isinstance(node.value, str) else None
    if match is None:
        what = f"is {describe_value(node.value)}"
        problems.append(node.problem(what, 'write weekdays and hours, "Mon-Fri 01:00-04:00"'))
        return None
    first, last, *clock = match.groups()
    start, end = (
        int(hours) * 3600 + int(minutes) * 60 for hours, minutes in (clock[:2], clock[2:])
    )
    opening, closing = _DAYS.index(first), _DAYS.index(last or first)
    if not (start < end <= _DAY_S and opening <= closing):
        fix = "split it at midnight or at the end of the week; a day ends at 24:00"
        problems.append(node.problem("ends before it starts", fix))
        return None
    return PeakWindow(weekdays=frozenset(range(opening, closing + 1)), start=start, end=end)
