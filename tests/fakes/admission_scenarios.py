"""Stories of calls that budgets admit, in time that is set."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from proxy.calls.settlement import AttemptInfo, AttemptOutcome
from proxy.errors import ProxyError
from proxy.records.receipt import Outcome
from slo.budget import Budget
from slo.usage import Usage
from tests.fakes.admission_harness import AdmissionHarness
from tests.fakes.clock import played

COUNTER = "b/team/usd/2026-09-21/acme"
USED = Usage(input=10, output=100)
ANSWERED = AttemptOutcome(outcome=Outcome.ANSWERED, status=200, usage=USED)
COST = 10 * 1_000 + 100 * 4_000


def run_scenario(story: Callable[[AdmissionHarness], Awaitable[None]], *budgets: Budget) -> None:
    """Play a story in an office with these budgets."""

    async def run() -> None:
        await story(AdmissionHarness(*budgets))

    played(run())


async def admit_until_refused(office: AdmissionHarness, why: type[ProxyError]) -> list[AttemptInfo]:
    """The attempts that are admitted before one is not."""
    admitted: list[AttemptInfo] = []
    with suppress(why):
        while len(admitted) < 100:
            attempt = office.attempt(100 + len(admitted))
            await office.admit(attempt)
            admitted.append(attempt)
    return admitted


async def wait_until_settled(office: AdmissionHarness) -> None:
    """All that ended is settled."""
    await office.admission.wait_until_settled()


async def answer_thirty_calls(office: AdmissionHarness) -> None:
    """Thirty short answers."""
    for number in range(30):
        attempt = office.attempt(number)
        await office.admit(attempt)
        office.end(attempt, ANSWERED)
        await wait_until_settled(office)
