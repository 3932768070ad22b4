"""``auto`` asks for a rolling change once measurements are sure, and not more than once an hour."""

import asyncio
from contextlib import suppress

from proxy.cli.engines.engine_changes import LOOK_INTERVAL_S, MIN_RUN_S, follow_measurements
from proxy.engines.speculation.auto_choice import SpeculationChoice, SpeculationRecord
from proxy.engines.speculation.evidence import SpeculationEvidence
from tests.fakes.engine_profiles import a_profile
from tests.fakes.receipts import START
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.proxy.engines.speculation.test_advice import add_samples

PROFILE = a_profile('speculative = "auto"\ngpu = "H100"')


class Changes:
    """Keeps the requests for rolling changes."""

    def __init__(self) -> None:
        self.requests: list[bool] = []

    def request(self, *, also_unchanged: bool = True) -> None:
        self.requests.append(also_unchanged)


def requests_after(seconds: float, evidence: SpeculationEvidence) -> list[bool]:
    """The requests of ``auto`` since a setting began."""

    async def story() -> list[bool]:
        ticks = asyncio.get_running_loop().time
        choice = SpeculationChoice(setting="ngram:3", reason="first", since=START + ticks())
        record = SpeculationRecord(choice=choice, evidence=evidence)
        changes = Changes()
        following = follow_measurements(
            PROFILE,
            record,
            changes,  # type: ignore[arg-type]
            lambda: START + ticks(),
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(following, seconds)
        return changes.requests

    return run_in_virtual_time(story)


def test_auto_asks_to_replace_a_method_that_does_not_pay_after_an_hour():
    slow = add_samples(ngram=(80, 0.2, 1), none=(100, None, 1))

    assert requests_after(MIN_RUN_S - 1, slow) == []
    late = requests_after(MIN_RUN_S + LOOK_INTERVAL_S + 1, slow)
    assert late[:1] == [False]  # replicas whose command stays are left alone


def test_auto_keeps_a_method_that_pays():
    quick = add_samples(ngram=(150, 0.6, 1), none=(100, None, 1))

    assert requests_after(3 * MIN_RUN_S, quick) == []
