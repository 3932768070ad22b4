"""OpenAI from GPT-5.6 on: a stable developer text and one user message that varies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.fakes.handbook import handbook, question
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

MODEL = MODELS["openai-breakpoint"]
RULES = handbook(40, "rules")
CALLS = 12
#: Modes in which the gateway marks; the first does nothing else.
MARKING = (PlanningMode.OBSERVE, PlanningMode.APPLY, PlanningMode.AUTO)


def body(user_text: str) -> dict[str, Any]:
    developer = {"role": "developer", "content": RULES}
    return {"model": MODEL, "messages": [developer, {"role": "user", "content": user_text}]}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        yield running


def ask_repeatedly(harness: PrefixHarness, mode: PlanningMode) -> list[Usage]:
    """Return what the simulator charged for each of some calls, half a minute apart."""
    harness.turn()
    harness.plan(mode.value, mode)
    for number in range(CALLS):
        harness.ask(body(question(f"one {number}")), at=number * 30.0, feature=mode.value)
    charged = [exchange.usage for exchange in harness.lab.exchanges][-CALLS:]
    assert all(used is not None for used in charged)
    return [used for used in charged if used is not None]


def stable(harness: PrefixHarness) -> int:
    """Tokens of the developer's message: its start, role, words and end."""
    ids = harness.lab.vocabulary.ids
    return len(ids("developer")) + len(ids(RULES)) + 3


def test_as_sent_nothing_is_read_and_all_of_it_is_written_with_every_call(
    harness: PrefixHarness,
) -> None:
    charged = ask_repeatedly(harness, PlanningMode.OFF)

    assert [used.cache_read for used in charged] == [0] * CALLS
    assert all(used.write_30m > 0.99 * used.prompt_tokens for used in charged)


@pytest.mark.parametrize("mode", MARKING)
def test_planned_all_of_the_stable_part_is_read_from_the_second_call_on(
    harness: PrefixHarness, mode: PlanningMode
) -> None:
    first, *later = ask_repeatedly(harness, mode)

    assert first.cache_read == 0
    assert first.write_30m >= stable(harness)
    assert {used.cache_read for used in later} == {stable(harness)}


@pytest.mark.parametrize("mode", MARKING)
def test_planned_the_stable_part_is_written_once(
    harness: PrefixHarness, mode: PlanningMode
) -> None:
    """The question is written too, as it is directly: nobody knows yet that none goes on."""
    first, *later = ask_repeatedly(harness, mode)

    assert first.cache_write_tokens <= first.prompt_tokens
    assert all(used.cache_write_tokens <= used.prompt_tokens - stable(harness) for used in later)
    assert sum(used.cache_write_tokens for used in later) < 0.12 * first.cache_write_tokens


@pytest.mark.parametrize("mode", MARKING)
def test_planned_it_costs_less_from_the_second_call_on(
    harness: PrefixHarness, mode: PlanningMode
) -> None:
    ask_repeatedly(harness, PlanningMode.OFF)
    ask_repeatedly(harness, mode)
    spent = harness.spend_by_feature()
    before, after = spent[PlanningMode.OFF.value].cost_nanos, spent[mode.value].cost_nanos

    assert before is not None
    assert after is not None
    assert after < 0.30 * before


def test_a_caller_that_switched_the_surcharge_off_pays_none_for_texts_that_nobody_repeats(
    harness: PrefixHarness,
) -> None:
    feature = PlanningMode.OBSERVE.value
    harness.plan(feature, PlanningMode.OBSERVE)
    for number in range(CALLS):
        own = {"role": "developer", "content": handbook(20, f"rules {number}")}
        request_body = body(question(f"one {number}"))
        request_body |= {"messages": [own, request_body["messages"][1]]}
        request_body |= {"prompt_cache_options": {"mode": "explicit"}}
        harness.ask(request_body, at=number * 30.0, feature=feature)
    charged = [exchange.usage for exchange in harness.lab.exchanges][-CALLS:]

    assert [used.cache_write_tokens for used in charged if used is not None] == [0] * CALLS
