"""Finds the budgets that a call counts in, and caches that for calls alike."""

from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

import msgspec

from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.call import Call
from proxy.services.budgets.cost_bounds.reservation_requests import (
    CountedBudget,
    counted_budgets,
    subject,
)
from slo import window
from slo.budgets.budget import LABEL_PREFIX, Budget, BudgetIndex, BudgetUnit
from slo.window import Window

_MAX_REMEMBERED: Final = 4096

#: A team's id and name, a key, a feature, an end user, and whether the call is paid for.
_Caller: TypeAlias = tuple[str, str, str, str, str, bool]


class BudgetMatch(msgspec.Struct, frozen=True):
    """The budgets that a call counts in.

    Attributes:
        has_rate: True if one is of a minute, which headers tell of.
        since: Start of the windows in which they are counted, in seconds since the epoch.
        until: End of the first of them.
    """

    counted: Sequence[CountedBudget]
    units: frozenset[BudgetUnit]
    has_rate: bool
    since: float
    until: float


class BudgetMatcher:
    """Finds the budgets that calls count in.

    A match is remembered for a caller until a window ends. What labels decide is not remembered:
    they stand in the body. End users are told apart only where a budget does.
    """

    def __init__(self, budgets: Collection[Budget], seal: Pseudonymizer) -> None:
        scopes = {budget.scope for budget in budgets}
        self._budgets = BudgetIndex(budgets)
        self._seal = seal
        self._has_labels = any(scope.startswith(LABEL_PREFIX) for scope in scopes)
        self._has_users = "user" in scopes
        self._remembered: dict[_Caller, BudgetMatch] = {}

    def match(self, call: Call) -> BudgetMatch:
        """The budgets that a call counts in, in the windows it arrived in."""
        if self._has_labels:
            return self._find(call)
        key, user = call.key, call.end_user if self._has_users else ""
        caller = (key.team, key.team_name, key.id, call.feature, user, call.method == "POST")
        match = self._remembered.get(caller)
        if match is None or not match.since <= call.arrived < match.until:
            match = self._find(call)
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()  # features and users are whatever callers say
            self._remembered[caller] = match
        return match

    def _find(self, call: Call) -> BudgetMatch:
        who = subject(call, self._seal, labelled=self._has_labels)
        budgets = counted_budgets(self._budgets, who, call)
        windows = {counted.budget.window for counted in budgets}
        opened = [window.window_start(period, call.arrived) for period in windows]
        return BudgetMatch(
            counted=budgets,
            units=frozenset(counted.budget.unit for counted in budgets),
            has_rate=Window.MINUTE in windows,
            since=max(opened, default=float("-inf")),
            until=min((counted.ends for counted in budgets), default=float("inf")),
        )
