"""Switches of the fast path: a part that people turned off for one feature, whatever rules name it.

A switch stands before all rules of its kind, as a rule that asks for nothing. What was learned and
kept under the rules behind it stays.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from slo.policies.answer_cache import AnswerCachePolicy
from slo.policies.drafts import DraftRule
from slo.policies.file import Policies
from slo.policies.small_first import SmallFirst
from slo.policies.stream_continuation import StreamContinuation

#: The name of a switch among rules; none of a file has a space.
SWITCH_NAME: Final = "switched off"


class SwitchedPart(StrEnum):
    """A part of the fast path that has a switch; its value is the rules' table in the file."""

    ANSWER_CACHE = "answer_cache"
    SMALL_FIRST = "small_first"
    DRAFTS = "drafts"
    STREAM_CONTINUATION = "stream_continuation"


class FastPathSwitch(msgspec.Struct, frozen=True):
    """A part that is off for the calls of a feature.

    Attributes:
        team: The team's name.
        feature: The feature; "" for calls that name none.
    """

    team: str
    feature: str
    part: SwitchedPart


class FeatureRule(Protocol):
    """A rule about a feature."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def team(self) -> str:
        """The team's name."""
        ...

    @property
    def feature(self) -> str:
        """The feature."""
        ...


R = TypeVar("R", bound=FeatureRule)

#: Rules that ask for nothing.
_OFF_RULES: Final[Mapping[SwitchedPart, Callable[[str, str], Any]]] = {
    SwitchedPart.ANSWER_CACHE: lambda team, feature: AnswerCachePolicy(
        name=SWITCH_NAME, team=team, feature=feature, ttl=0.0
    ),
    SwitchedPart.SMALL_FIRST: lambda team, feature: SmallFirst(
        name=SWITCH_NAME, team=team, feature=feature, small=""
    ),
    SwitchedPart.DRAFTS: lambda team, feature: DraftRule(
        name=SWITCH_NAME, team=team, feature=feature, model=""
    ),
    SwitchedPart.STREAM_CONTINUATION: lambda team, feature: StreamContinuation(
        name=SWITCH_NAME, team=team, feature=feature, max_continuations=0
    ),
}


def with_switches(policies: Policies, switches: Iterable[FastPathSwitch]) -> Policies:
    """The policies with each switch before the rules of its part."""
    rules: dict[str, tuple[Any, ...]] = {}
    for switch in switches:
        part = switch.part.value
        off_rule = _OFF_RULES[switch.part](switch.team, switch.feature)
        rules[part] = (off_rule, *rules.get(part, getattr(policies, part)))
    return msgspec.structs.replace(policies, **rules)


def split_switches(rules: Iterable[R]) -> tuple[list[R], frozenset[tuple[str, str]]]:
    """The rules without switches; team and feature of each switch among them."""
    rules = list(rules)
    switches = (rule for rule in rules if rule.name == SWITCH_NAME)
    off = frozenset((rule.team, rule.feature) for rule in switches)
    return [rule for rule in rules if rule.name != SWITCH_NAME], off
