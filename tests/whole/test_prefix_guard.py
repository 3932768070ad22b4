"""A feature that planning makes dearer goes back to pass-through within fifty calls, over HTTP."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
import pytest

from proxy.records.feature_mode import LayoutScope, PlanningMode
from tests.fakes.handbook import handbook, question
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

T = TypeVar("T")
RULES: Final = handbook(40, "rules")
FEATURE: Final = "parcels"
#: Calls that are made well before the feature is made dearer, and after.
BEFORE: Final = 30
AFTER: Final = 60
#: What makes it dearer: the handbook, which never changes, is said to vary with each call.
DEARER: Final = {"metadata": {"thriftgate_slots": "0=variable"}}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        yield running


def body(number: int, model: str, **fields: Any) -> dict[str, Any]:
    """One of the calls of a conversation; each has five."""
    conversation, turns = divmod(number, 5)
    messages = [{"role": "developer", "content": RULES}]
    for turn in range(turns + 1):
        if turn:
            messages.append({"role": "assistant", "content": f"Parcel {conversation}.{turn}."})
        messages.append({"role": "user", "content": question(f"{conversation} {turn}")})
    return {"model": model, "messages": messages, **fields}


def is_unmodified(harness: PrefixHarness, request_body: dict[str, Any]) -> bool:
    """True if the upstream got the prompt as its caller wrote it."""
    document = orjson.loads(harness.lab.exchanges[-1].body)
    return bool(document["messages"] == request_body["messages"])


def unmodified_after(harness: PrefixHarness, model: str) -> int:
    """Number of calls it takes until one is sent unmodified; as many as are made if none is."""
    for number in range(BEFORE):
        harness.ask(body(number, model), at=number * 10.0, feature=FEATURE)
    for number in range(AFTER):
        request_body = body(BEFORE + number, model, **DEARER)
        harness.ask(request_body, at=(BEFORE + number) * 10.0, feature=FEATURE)
        if is_unmodified(harness, request_body):
            return number
    return AFTER


def in_time(look: Callable[[], T]) -> T:
    """Wait until the look finds something; decisions in the background take a moment."""
    until = time.monotonic() + 20.0
    while not (observed := look()) and time.monotonic() < until:
        time.sleep(0.02)
    return observed


def suspension(harness: PrefixHarness, place: LayoutScope) -> str:
    """Return why planning is suspended there."""

    def look() -> str:
        harness.gateway.store.board.refresh()
        return harness.gateway.store.board.current.of(place).suspended

    return in_time(look)


@pytest.mark.parametrize("regime", ["openai-breakpoint", "openai-interval"])
def test_a_feature_made_dearer_passes_through_within_fifty_calls_and_people_are_notified(
    harness: PrefixHarness, regime: str
) -> None:
    model = MODELS[regime]
    harness.plan(FEATURE, PlanningMode.OBSERVE)

    assert unmodified_after(harness, model) <= 50
    place = LayoutScope(harness.team, FEATURE, model.partition("-")[0])
    assert "more than the same calls" in suspension(harness, place)
    store = harness.gateway.store
    (alert,) = in_time(lambda: store.outbox.open_alerts(10))
    assert alert.kind == "planning"
    assert "once a person resumes it" in alert.fix


def test_a_feature_that_is_no_dearer_stays_planned(harness: PrefixHarness) -> None:
    model = MODELS["openai-breakpoint"]
    harness.plan(FEATURE, PlanningMode.OBSERVE)
    for number in range(BEFORE + AFTER):
        harness.ask(body(number, model), at=number * 10.0, feature=FEATURE)

    store = harness.gateway.store
    store.board.refresh()
    assert not any(place.suspended for place in store.board.current.places.values())
