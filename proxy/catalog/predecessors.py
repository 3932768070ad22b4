"""Prices a model that the catalog does not list yet like its predecessor.

Models of one line differ in their version alone: ``gpt-6.3-sol`` follows ``gpt-6.2-sol``, and
``claude-sonnet-5-6`` follows ``claude-sonnet-5-5``. Other words are other tiers or sizes, which get
no price. Neither does a version older than the newest priced one, or too far ahead to be its
successor: ``gpt-99`` is a made-up name.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from proxy.catalog.entries import Model, Route, Upstream

#: Suffix of a dated snapshot of a model: 2024-08-06, 20250929 or latest.
SNAPSHOT: Final = re.compile(r"-(20\d\d-?[01]\d-?[0-3]\d|latest)\Z")
#: A part of a version; what has more digits is a date or a size.
_NUMBER: Final = re.compile(r"v?(\d{1,2})((?:\.\d{1,2})*)")
#: Minor versions that a successor may be ahead, such as 5 and 5.5.
_MAX_MINOR_STEPS: Final = 5
#: Words that tell no model from another.
_SILENT_WORDS: Final = frozenset({"preview"})

Version: TypeAlias = tuple[int, ...]
Line: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _PricedMember:
    """A member of a line with a price: its version, public name and route."""

    version: Version
    name: str
    route: Route


@dataclass(frozen=True, slots=True)
class Predecessors:
    """The newest priced model of each line, by provider.

    Attributes:
        newest: By provider, or upstream where the provider is unknown, and line.
    """

    newest: Mapping[tuple[str, Line], _PricedMember] = field(default_factory=dict)

    def with_assumed_price(self, route: Route, names: Collection[str]) -> Route:
        """The route at its predecessor's price and limits; unchanged where it has none.

        Args:
            names: The model's public name and the one its upstream knows.
        """
        member = self._predecessor(route.upstream, names)
        if member is None or not sells_by_tokens(route.upstream):
            return route
        before = member.route
        return replace(
            route,
            tariff=before.tariff,
            window=route.window or before.window,
            max_output=route.max_output or before.max_output,
            assumed_price_of=member.name,
        )

    def _predecessor(self, upstream: Upstream, names: Collection[str]) -> _PricedMember | None:
        for name in names:
            if (parts := _line_and_version(name)) is None:
                continue
            line, version = parts
            member = self.newest.get((_provider(upstream), line))
            if member is not None and _is_successor(version, member.version):
                return member
        return None


def find_predecessors(models: Iterable[Model]) -> Predecessors:
    """The newest priced model of each line among these, where it is paid for by tokens."""
    newest: dict[tuple[str, Line], _PricedMember] = {}
    for model in models:
        parts = _line_and_version(model.id)
        if parts is None:
            continue
        line, version = parts
        for route in model.routes:
            if route.tariff is None or not sells_by_tokens(route.upstream):
                continue
            key = (_provider(route.upstream), line)
            if key not in newest or version > newest[key].version:
                newest[key] = _PricedMember(version, model.id, route)
    return Predecessors(newest)


def sells_by_tokens(upstream: Upstream) -> bool:
    """True if an upstream is some provider's, and no machine of one's own."""
    is_own = bool(upstream.engine) or upstream.replica_price is not None
    return not is_own and bool(upstream.provider or upstream.needs_credentials)


def _provider(upstream: Upstream) -> str:
    return upstream.provider or upstream.name


def _is_successor(version: Version, before: Version) -> bool:
    """True for the next major version, and for the next few minor ones of the same major.

    Of 35 successive versions in the shipped catalog 30 are; 22 are exactly the next.
    """
    length = max(len(version), len(before))
    steps = [
        later - earlier
        for later, earlier in zip(
            version + (0,) * (length - len(version)),
            before + (0,) * (length - len(before)),
            strict=True,
        )
    ]
    place = next((place for place, step in enumerate(steps) if step), None)
    if place is None:
        return False
    is_round = not any(version[place + 1 :])
    return is_round and 0 < steps[place] <= (_MAX_MINOR_STEPS if place else 1)


def _line_and_version(name: str) -> tuple[Line, Version] | None:
    """A name's words, with a gap for its version, and the version; None where it has not one."""
    words: list[str] = []
    version: list[int] = []
    for word in SNAPSHOT.sub("", name).lower().split("-"):
        number = _NUMBER.fullmatch(word)
        if number is None:
            words += [] if word in _SILENT_WORDS else [word]
            continue
        if version and words[-1]:
            return None  # two numbers apart: no one can say which is the version
        words += [] if version else [""]
        version += map(int, (number[1] + number[2]).split("."))
    return (tuple(words), tuple(version)) if version else None
