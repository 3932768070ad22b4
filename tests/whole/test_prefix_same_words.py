"""Callers whose first message is always the same: their calls cannot be told apart."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson
import pytest

from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.fakes.handbook import handbook
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

RULES = handbook(40, "rules")
#: Which department each call is for; with the third the same one comes again and again.
DEPARTMENTS = (0, 1, *[2] * 10)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        running.plan("planned", PlanningMode.OBSERVE)
        yield running


def serve_calls(
    harness: PrefixHarness, regime: str, feature: str, departments: Iterable[int] = DEPARTMENTS
) -> list[Usage]:
    """Return what the simulator charged for each call of a feature."""
    harness.turn()
    charged = []
    for department in departments:
        harness.clock.past += 30.0
        messages = [
            {"role": "system", "content": f"Department {department} of {feature}.\n{RULES}"},
            {"role": "user", "content": "Hi"},
        ]
        answer = harness.client.post(
            f"{harness.url}/chat/completions",
            content=orjson.dumps({"model": MODELS[regime], "messages": messages}),
            headers={
                "authorization": f"Bearer {harness.key}",
                "content-type": "application/json",
                "x-thriftgate-feature": feature,
            },
        )
        assert answer.status_code == 200, answer.text
        usage = harness.lab.exchanges[-1].usage
        assert usage is not None
        charged.append(usage)
    return charged


def cost(charged: list[Usage]) -> float:
    """In prices of a fresh token: what is written costs a quarter more, what is read a tenth."""
    return sum(one.input + 1.25 * one.cache_write_tokens + 0.1 * one.cache_read for one in charged)


@pytest.mark.parametrize("regime", sorted(MODELS))
def test_a_repeated_prompt_is_read_however_it_began(harness: PrefixHarness, regime: str):
    alone = serve_calls(harness, regime, "unplanned")
    planned = serve_calls(harness, regime, "planned")

    assert planned[-1].cache_read >= 0.9 * alone[-1].cache_read
    assert cost(planned) <= 1.02 * cost(alone)


@pytest.mark.parametrize("regime", sorted(MODELS))
def test_a_prompt_that_never_repeats_is_soon_written_without_a_fee(
    harness: PrefixHarness, regime: str
):
    alone = serve_calls(harness, regime, "unplanned", range(24))
    planned = serve_calls(harness, regime, "planned", range(24))

    assert cost(planned) <= 1.02 * cost(alone)
    if regime == "openai-breakpoint":
        assert [one.cache_write_tokens for one in planned[8:]] == [0] * 16
