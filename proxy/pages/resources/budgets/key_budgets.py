"""The budget of a single key: a stored budget whose name is the key's id."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from dashboards.access import Viewer
from dashboards.views.access import KeyBudgetView
from proxy.pages.resources.budgets.budget_requests import BudgetRequest, Text, requested_budget
from proxy.pages.resources.budgets.stored_budgets import StoredBudgetsResource, limit_text
from slo.budgets.budget import BudgetUnit

_KEY: Final = "key"


class KeyBudget(BaseModel):
    """The most that a key may use in a window; calls beyond are refused.

    The rules are those of ``[[budgets]]`` in the policies file.

    ``limit`` is a text: dollars with up to nine decimals, or a whole number.
    """

    limit: Text
    unit: Text = BudgetUnit.USD
    window: Text = "month"

    def request(self, key: str) -> BudgetRequest:
        """The budget of the key with this id, as it is set."""
        return BudgetRequest(
            scope=_KEY, of=key, unit=self.unit, window=self.window, limit=self.limit
        )


@dataclass(eq=False)
class KeyBudgets:
    """The budgets of keys, among those that people set; its errors are those of other budgets."""

    _stored: StoredBudgetsResource

    @property
    def are_kept(self) -> bool:
        """False where there is no policies file, without which no budgets are kept."""
        return self._stored.are_kept

    def check(self, request: KeyBudget) -> None:
        """Check a budget before its key is made."""
        self._stored.check_settable(requested_budget("key", request.request("key")).name)

    async def set(self, viewer: Viewer, key: str, request: KeyBudget) -> None:
        """Sets the budget of a key, in place of an earlier one."""
        await self._stored.set(viewer, key, request.request(key))

    async def remove(self, viewer: Viewer, key: str) -> None:
        """Removes the budget of a key."""
        await self._stored.remove(viewer, key)

    async def forget(self, viewer: Viewer, key: str) -> None:
        """Removes the budget of a key that was revoked, if it has one."""
        await self._stored.forget(viewer, key)

    def of(self, key: str) -> Sequence[KeyBudgetView]:
        """The budgets in force of this key alone, also those of the policies file."""
        return [
            KeyBudgetView(
                name=budget.name,
                limit=limit_text(budget),
                unit=budget.unit,
                window=budget.window,
                is_own=budget.name == key,
            )
            for budget in self._stored.in_force()
            if budget.scope == _KEY and budget.of == key
        ]
