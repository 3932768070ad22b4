"""The admission gate: checks an attempt's ceilings, then its budgets, before it is sent."""

from collections.abc import Callable, Mapping

from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Receipt
from proxy.services.budgets.admission import Admission
from proxy.services.budgets.ceilings import CostCeilings


class AdmissionGate:
    """Ceilings and budgets, one after the other."""

    def __init__(self, ceilings: CostCeilings, budgets: Admission) -> None:
        self.ceilings = ceilings
        self.budgets = budgets

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        """As ``SpendingLimits.admit``."""
        passed = await self.ceilings.check(attempt, prepared, fits)
        if isinstance(passed, CheaperRoute):
            return passed
        headers = await self.budgets.admit(attempt, passed.prepared)
        return Admitted(passed.prepared, {**passed.headers, **headers}, passed.notes)

    async def admit_free(self, attempt: AttemptInfo) -> Mapping[str, str]:
        """As ``SpendingLimits.admit_free``; no ceiling is below nothing."""
        return await self.budgets.admit_free(attempt)

    def settle(self, receipt: Receipt) -> None:
        """Settle an attempt with its receipt; budgets in the background."""
        self.ceilings.record_cost(receipt)
        self.budgets.settle(receipt)
