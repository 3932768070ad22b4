"""Database readers for pages, separate from those of calls and commands.

All of them sum in the database, so the rows that return are as many as a page shows, however many
calls there are.
"""

import pickle
from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from sqlalchemy import Engine

from proxy.records.feature_mode import PlanningMode
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.outbox import Outbox
from proxy.store.sql.settings.compactions import Compactions
from proxy.store.sql.settings.layouts import Layouts
from proxy.store.sql.settings.mark_accounts import MarkAccounts
from proxy.store.sql.views.ledger_reports import LedgerReports

P = ParamSpec("P")
T = TypeVar("T")


class Readers:
    """All that a question of a page may read in one database; it changes nothing there.

    Figures of the ledger are read over ``engine`` by the functions that make views of them.
    """

    def __init__(self, engine: Engine, mode: PlanningMode = PlanningMode.OBSERVE) -> None:
        self.engine = engine
        self.reports = LedgerReports(engine)
        self.layouts = Layouts(engine, mode=mode)
        self.marks = MarkAccounts(engine)
        self.compactions = Compactions(engine)
        self.audit = AuditLog(engine)
        self.alerts = Outbox(engine)
        self.teams = Teams(engine)

    def team_names(self) -> dict[str, str]:
        """The names of all teams, by their ids."""
        return {team.id: team.name for team in self.teams.all()}


class DashboardReads(Protocol):
    """Answers questions of pages, such as ``proxy.store.sql.views.costs.costs_view``."""

    def read(
        self, question: Callable[Concatenate[Readers, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The question's answer; blocks.

        Args:
            question: A function of a module; another process finds it by its name.
            args: Its arguments after the readers; they and the answer can be pickled.

        Raises:
            StoreError: The database does not answer.
            TimeoutError: It did not in time.
        """
        ...


class LocalReads:
    """Answers questions in this process; the arguments are those of ``Readers``."""

    def __init__(self, engine: Engine, mode: PlanningMode = PlanningMode.OBSERVE) -> None:
        self._readers = Readers(engine, mode)

    def read(
        self, question: Callable[Concatenate[Readers, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The question's answer; the arguments are those of ``DashboardReads.read``."""
        return question(self._readers, *args, **kwargs)


class PickledOnce(Generic[T]):
    """A large value that goes with many questions and is pickled with the first of them only.

    Attributes:
        value: The value; nobody changes it.
    """

    def __init__(self, value: T) -> None:
        self.value = value
        self._pickled = b""

    def __reduce__(self) -> "tuple[Callable[[bytes], PickledOnce[T]], tuple[bytes]]":
        """Pickle it as the bytes that it was pickled as before."""
        self._pickled = self._pickled or pickle.dumps(self.value)
        return _unpickle, (self._pickled,)


def _unpickle(pickled: bytes) -> PickledOnce[T]:
    return PickledOnce(pickle.loads(pickled))  # noqa: S301 - of the process that started this one
