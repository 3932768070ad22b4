"""Scenarios: what goes wrong in the simulator over time, by a TOML file.

::

    [[phases]]
    at = "5m"                    # after the start
    for = "10m"                  # to the end if it is left out
    models = ["gpt-5.6-terra"]   # all if it is left out
    slow = 3                     # everything takes that many times as long
    fault = "503"                # any fault directive of `proxy.tools.simulator.fault_directives`
    share = 0.2                  # the part of calls with that fault, evenly spread; all if left out
    requests_per_minute = 60     # a rate limit; calls beyond it get 429 with `retry-after`

Phases may overlap; what they do adds up. Nothing is random, so a scenario plays alike each time.
"""

from collections.abc import Collection
from decimal import Decimal
from typing import Final

import msgspec

from proxy.tools.simulator.fault_directives import NAMES, FaultDirectives
from proxy.tools.simulator.fault_directives import parse_directives as parse_cues
from proxy.tools.simulator.limits import RateAllowance
from slo.duration import format_duration as duration
from slo.duration import parse_duration
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader, checked_choice, describe_value

_KEYS: Final = ("at", "for", "models", "slow", "fault", "share", "requests_per_minute")


class ScenarioPhase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of a scenario in which something fails.

    Attributes:
        at: Start of the phase, in seconds after the scenario's start.
        until: End of the phase, likewise; None for never.
    """

    at: float
    until: float | None = None
    models: tuple[str, ...] = ()
    slow: float = 1.0
    fault: str = ""
    share: float = 1.0
    requests_per_minute: int | None = None

    def __str__(self) -> str:
        """In words: ``from 5m to 15m, gpt-5.6-terra: 3 times slower``."""
        end = "" if self.until is None else f" to {duration(self.until)}"
        part = "" if self.share == 1 else f" for {self.share:.0%} of calls"
        done = [
            *([f"{self.slow:g} times slower"] if self.slow != 1 else []),
            *([f"fault {self.fault}{part}"] if self.fault else []),
            *([f"{self.requests_per_minute} requests a minute"] if self.has_limit else []),
        ]
        whose = ", ".join(self.models) or "all models"
        return f"from {duration(self.at)}{end}, {whose}: {', '.join(done)}"

    @property
    def has_limit(self) -> bool:
        """True if it limits requests."""
        return self.requests_per_minute is not None

    def holds(self, model: str, elapsed: float) -> bool:
        """True if calls to the model meet it so many seconds after the start."""
        is_now = self.at <= elapsed and (self.until is None or elapsed < self.until)
        return is_now and (not self.models or model in self.models)


class Scenario:
    """Phases as they are played.

    Args:
        start: Start of the scenario, in seconds of the clock that it is asked by.
    """

    def __init__(self, phases: Collection[ScenarioPhase], start: float) -> None:
        self._phases = tuple(phases)
        self._start = start
        self._calls = [0] * len(self._phases)
        self._limits = [
            RateAllowance(phase.requests_per_minute or 1, start + phase.at)
            for phase in self._phases
        ]

    def cues(self, model: str, now: float) -> FaultDirectives:
        """The directives for a call to the model that arrives now."""
        directives = FaultDirectives()
        for index, phase in enumerate(self._phases):
            if phase.holds(model, now - self._start):
                directives += self._met(index, phase, now)
        return directives

    def _met(self, index: int, phase: ScenarioPhase, now: float) -> FaultDirectives:
        """The directives of one phase for the call."""
        wait = self._limits[index].take(1, now) if phase.has_limit else 0.0
        if wait:
            return parse_cues(f"429={wait:.3f}")
        directives = parse_cues(f"slow={phase.slow:g}") if phase.slow != 1 else FaultDirectives()
        if phase.fault:
            before, self._calls[index] = self._calls[index], self._calls[index] + 1
            if int(before * phase.share) < int((before + 1) * phase.share):
                directives += parse_cues(phase.fault)
        return directives


def read(text: str, file: str, models: Collection[str]) -> tuple[ScenarioPhase, ...]:
    """The phases of a scenario file.

    Raises:
        InvalidFile: With every problem found, by file and line.
    """
    problems: list[Problem] = []
    top = TableReader(parse_toml(text, file), ("phases",), problems)
    phases = tuple(_phase(element, models, problems) for element in top.elements("phases"))
    if not phases and not problems:
        problems.append(top.node.problem("has no phases", "write a table [[phases]]"))
    if problems:
        raise InvalidFile(problems)
    return phases


def _phase(node: Node, models: Collection[str], problems: list[Problem]) -> ScenarioPhase:
    fields = TableReader(node, _KEYS, problems)
    named = [checked_choice(element, models, problems) for element in fields.elements("models")]
    if "at" not in fields.nodes:
        problems.append(node.problem("has no `at`", 'write at = "0s" for from the start'))
    if not {"slow", "fault", "requests_per_minute"} & fields.nodes.keys():
        fix = "write slow, fault or requests_per_minute"
        problems.append(node.problem("does nothing", fix))
    if "share" in fields.nodes and "fault" not in fields.nodes:
        fields.add_problem("share", "is of no fault", "write a fault, too")
    start, lasts = _duration(fields, "at"), _duration(fields, "for")
    limit = fields.get("requests_per_minute", int)
    if limit == 0:
        fix = 'write fault = "429" to refuse all calls'
        fields.add_problem("requests_per_minute", "is 0", fix)
    return ScenarioPhase(
        at=start or 0.0,
        until=None if lasts is None else (start or 0.0) + lasts,
        models=tuple(named),
        slow=_number(fields, "slow", 1_000.0),
        fault=_fault(fields),
        share=_number(fields, "share", 1.0),
        requests_per_minute=limit,
    )


def _duration(fields: TableReader, key: str) -> float | None:
    """Seconds; None where the key is absent."""
    text = fields.text(key, "10m")
    if text is None:
        return None
    seconds = parse_duration(text)
    if seconds is None:
        fix = 'write a duration, such as "90s" or "10m"'
        fields.add_problem(key, f'is "{text}"', fix)
    return seconds


def _number(fields: TableReader, key: str, maximum: float) -> float:
    """A number above 0 and up to this; 1 where the key is absent."""
    node = fields.nodes.get(key)
    if node is None:
        return 1.0
    value = node.value
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if not is_number or not 0 < value <= maximum:
        fix = f"write a number above 0 and up to {maximum:g}"
        fields.add_problem(key, f"is {describe_value(value)}", fix)
        return 1.0
    return float(value)


def _fault(fields: TableReader) -> str:
    text = fields.text("fault", "503") or ""
    try:
        parse_cues(text)
    except ValueError:
        names = ", ".join(name for name in NAMES if name != "ok")
        fix = f"write a status from 400 to 599, or some of {names}"
        fields.add_problem("fault", f'is "{text}"', fix)
    return text
