"""Adds the budgets that people set on pages to those of the policies file, at each reload."""

import logging
from contextlib import suppress
from typing import Final

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from proxy.configuration import Snapshot
from proxy.settings import Settings
from proxy.store.sql.database import reason
from proxy.store.sql.stored_budgets import StoredBudgets, budgets_beside
from proxy.store.store import Store
from slo.budget import Budget

_log = logging.getLogger("thriftgate.budgets")
_UNREAD: Final = (-1, 0)


class BudgetOverlay:
    """The stored budgets as this process knows them.

    Where the database is away, those that were read last stay in force.

    Args:
        stored: The budgets in the database.
    """

    def __init__(self, stored: StoredBudgets) -> None:
        self._stored = stored
        self._known: tuple[Budget, ...] = ()
        self._revision = _UNREAD

    def revision(self) -> tuple[int, int]:
        """A value that differs after each change; blocks."""
        with suppress(SQLAlchemyError):  # the ledger says that the database is away
            self._revision = self._stored.revision()
        return self._revision

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the stored budgets beside those of the file, which win; blocks."""
        try:
            self._known = tuple(each.budget for each in self._stored.all())
        except SQLAlchemyError as error:
            _log.warning("Budgets set on pages stay as they were: %s", reason(error))
        names = {each.name for each in snapshot.policies.budgets}
        for each in self._known:
            if each.name in names:
                _log.warning(
                    "The policies file has a budget %s, which replaces the page's", each.name
                )
        budgets = budgets_beside(snapshot.policies.budgets, self._known)
        policies = msgspec.structs.replace(snapshot.policies, budgets=budgets)
        return msgspec.structs.replace(snapshot, policies=policies)


def stored_budget_overlay(settings: Settings, store: Store) -> BudgetOverlay | None:
    """The overlay of a gateway; None without a policies file, where no budgets are kept."""
    return None if settings.policies is None else BudgetOverlay(store.budgets)
