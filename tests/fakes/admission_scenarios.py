"""Runs of calls that budgets admit, in time that is set."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from proxy.calls.metering.settlement import AttemptInfo, AttemptOutcome
from proxy.errors import ProxyError
from proxy.records.receipt import Outcome
from slo.budgets.budget import Budget
from slo.usage import Usage
from tests.fakes.admission_harness import AdmissionHarness
from tests.fakes.clock import run_in_instant_time

COUNTER = "b/team/usd/2026-09-21/acme"
USED = Usage(input=10, output=100)
ANSWERED = AttemptOutcome(outcome=Outcome.ANSWERED, status=200, usage=USED)
COST = 10 * 1_000 + 100 * 4_000


def run_scenario(story: Callable[[AdmissionHarness], Awaitable[None]], *budgets: Budget) -> None:
    """Run a story against a harness with these budgets."""

    async def run() -> None:
        await story(AdmissionHarness(*budgets))

    run_in_instant_time(run())


async def admit_until_refused(
    harness: AdmissionHarness, why: type[ProxyError]
) -> list[AttemptInfo]:
    """The attempts that are admitted before one is not."""
    admitted: list[AttemptInfo] = []
    with suppress(why):
        while len(admitted) < 100:
            attempt = harness.attempt(100 + len(admitted))
            await harness.admit(attempt)
            admitted.append(attempt)
    return admitted


async def wait_until_settled(harness: AdmissionHarness) -> None:
    """All that ended is settled."""
    await harness.admission.wait_until_settled()


async def answer_thirty_calls(harness: AdmissionHarness) -> None:
    """Thirty short answers."""
    for number in range(30):
        attempt = harness.attempt(number)
        await harness.admit(attempt)
        harness.end(attempt, ANSWERED)
        await wait_until_settled(harness)
