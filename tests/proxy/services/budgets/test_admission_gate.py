"""Tests of what an attempt passes before it is sent, and in which order."""

import asyncio

from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute
from proxy.providers.port import PreparedRequest
from proxy.services.budgets.admission import Admission
from proxy.services.budgets.admission_gate import AdmissionGate
from proxy.services.budgets.ceilings import CostCeilings
from tests.fakes.answers import ASKED
from tests.fakes.call_dependencies import call, route
from tests.fakes.receipts import a_receipt

SENT = PreparedRequest(method="POST", path="/chat/completions", headers={}, body=ASKED)
CUT = PreparedRequest(method="POST", path="/chat/completions", headers={}, body=b"{}")
ATTEMPT = AttemptInfo(call=call(ASKED), route=route())


class FakeCeilings(CostCeilings):
    def __init__(self, says):
        self.says = says
        self.heard = []

    async def check(self, attempt, prepared, fits):
        self.heard.append(fits("small"))
        return self.says

    def record_cost(self, receipt):
        self.heard.append(receipt)


class FakeBudgets(Admission):
    def __init__(self):
        self.heard = []

    async def admit(self, attempt, prepared):
        self.heard.append(prepared)
        return {"x-ratelimit-remaining-requests": "3"}

    def settle(self, receipt):
        self.heard.append(receipt)


def admit(entry):
    return asyncio.run(entry.admit(ATTEMPT, SENT, lambda model: model == "small"))


def test_budgets_hold_the_cost_after_a_ceiling_clamped_it():
    budgets = FakeBudgets()
    ceilings = FakeCeilings(Admitted(CUT, {"x-thriftgate-clamped": "max_tokens=9"}, ("cut",)))

    passed = admit(AdmissionGate(ceilings, budgets))

    assert budgets.heard == [CUT]
    assert passed == Admitted(
        CUT,
        {"x-thriftgate-clamped": "max_tokens=9", "x-ratelimit-remaining-requests": "3"},
        ("cut",),
    )
    assert ceilings.heard == [True]


def test_a_rerouted_call_holds_nothing_for_its_first_route():
    budgets = FakeBudgets()
    elsewhere = CheaperRoute("small", "too dear")

    assert admit(AdmissionGate(FakeCeilings(elsewhere), budgets)) == elsewhere
    assert budgets.heard == []


def test_ceilings_and_budgets_get_each_receipt():
    ceilings, budgets, receipt = FakeCeilings(Admitted(SENT)), FakeBudgets(), a_receipt(1)

    AdmissionGate(ceilings, budgets).settle(receipt)

    assert ceilings.heard == budgets.heard == [receipt]
