"""The admission gate: checks an attempt's ceilings, then its budgets, before it is sent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Receipt
from proxy.store.ports import BudgetStore
from slo.budgets.ceiling import Ceiling

CeilingCounts: TypeAlias = tuple[Ceiling, Sequence[tuple[str, int]]]
"""A ceiling, and decisions by name, each with its number."""


class CeilingPort(Protocol):
    """Keeps calls below what one may cost."""

    async def check(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        """The request as it may be sent, or where the call fits."""
        ...

    def record_cost(self, receipt: Receipt) -> None:
        """Note what an attempt cost."""
        ...


class BudgetPort(Protocol):
    """Hold what attempts may use."""

    async def admit(self, attempt: AttemptInfo, prepared: PreparedRequest) -> Mapping[str, str]:
        """Reserve it; returns headers with what is left."""
        ...

    def settle(self, receipt: Receipt) -> None:
        """Settle an attempt with its receipt, in the background."""
        ...


class AdmissionGate:
    """Ceilings and budgets, one after the other; either may be missing.

    Attributes:
        counters: Store that counts budgets; None where nothing is counted.
        decision_counts: Returns each ceiling, and how often each was decided.
    """

    def __init__(
        self,
        ceilings: CeilingPort | None,
        budgets: BudgetPort | None,
        counters: BudgetStore | None = None,
        decision_counts: Callable[[], Sequence[CeilingCounts]] = tuple,
    ) -> None:
        self.counters = counters
        self.decision_counts = decision_counts
        self._ceilings = ceilings
        self._budgets = budgets

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        """Reserve what the attempt may use, or return the route on which it fits.

        Args:
            fits: Returns True if the model of this name can take the call, whatever it costs.

        Raises:
            CallerError: It does not fit.
            Unready: It is unknown whether it fits.
        """
        passed = Admitted(prepared)
        if self._ceilings is not None:
            checked = await self._ceilings.check(attempt, prepared, fits)
            if isinstance(checked, CheaperRoute):
                return checked
            passed = checked
        if self._budgets is None:
            return passed
        headers = await self._budgets.admit(attempt, passed.prepared)
        return Admitted(passed.prepared, {**passed.headers, **headers}, passed.notes)

    def settle(self, receipt: Receipt) -> None:
        """Settle an attempt with its receipt; budgets in the background."""
        if self._ceilings is not None:
            self._ceilings.record_cost(receipt)
        if self._budgets is not None:
            self._budgets.settle(receipt)
