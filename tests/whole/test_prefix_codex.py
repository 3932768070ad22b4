"""Sessions of Codex's shape through a gateway: what a second one reads in another folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.records.receipt import Receipt
from slo.usage import Usage
from tests.fakes.codex_sessions import HEADERS, codex_body, stable_tokens
from tests.fakes.prefix_harness import MODELS, START, PrefixHarness, prefix_harness

MODEL = MODELS["openai-breakpoint"]
NOTE = "the cache key is one that the team's sessions of this agent share"
MINUTE = 60.0
FEATURE = "codex"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        yield running


class CodexCaller:
    """Runs sessions one call after the other."""

    def __init__(self, harness: PrefixHarness, mode: PlanningMode, key: str = "") -> None:
        self.harness = harness
        self.key = key or harness.key
        self.notes = self.call_id = ""
        harness.plan(FEATURE, mode)

    def run(self, name: str, now: float, calls: int = 1, step: float = 10.0) -> list[Usage]:
        """Run a session in a folder of its name; return what each call was charged."""
        return [self._call(name, now + turn * step, turn) for turn in range(calls)]

    def _call(self, name: str, now: float, turn: int) -> Usage:
        harness = self.harness
        harness.clock.past = now
        answer = harness.client.post(
            f"{harness.url}/responses",
            content=orjson.dumps(codex_body(name, f"{name}/project", MODEL, turn)),
            headers={
                **HEADERS,
                "authorization": f"Bearer {self.key}",
                "content-type": "application/json",
                "session-id": name,
            },
        )
        assert answer.status_code == 200, answer.text
        harness._wait_until_learned()
        self.notes = answer.headers.get("x-thriftgate-notes", "")
        self.call_id = answer.headers["x-request-id"]
        charged = harness.lab.exchanges[-1].usage
        assert charged is not None
        return charged


def receipt_of(harness: PrefixHarness, call_id: str) -> Receipt:
    store = harness.gateway.store
    assert store.drain.flush(30)
    (receipt,) = store.ledger.call_receipts(call_id, harness.team)
    return receipt


def last_body(harness: PrefixHarness) -> Any:
    return orjson.loads(harness.lab.exchanges[-1].body)


def test_a_second_session_in_another_folder_reads_tools_and_stable_text(harness: PrefixHarness):
    caller = CodexCaller(harness, PlanningMode.OBSERVE)
    first, *_ = caller.run("ada", 0.0, 3)
    second, *later = caller.run("grace", 3 * MINUTE, 3)
    shared = stable_tokens(first.prompt_tokens, codex_body("ada", "ada/project", MODEL))

    assert (first.cache_read, caller.notes) == (0, NOTE)
    assert 0.9 * shared <= second.cache_read <= first.prompt_tokens
    for usage in later:
        assert usage.cache_read > 0.9 * first.prompt_tokens


def test_sent_directly_a_second_session_reads_nothing(harness: PrefixHarness):
    caller = CodexCaller(harness, PlanningMode.OFF)
    caller.run("ada", 0.0, 3)
    (second,) = caller.run("grace", 3 * MINUTE)

    assert second.cache_read == 0
    assert last_body(harness) == codex_body("grace", "grace/project", MODEL)
    assert caller.notes == ""


@pytest.mark.parametrize("mode", [PlanningMode.OBSERVE, PlanningMode.APPLY, PlanningMode.AUTO])
def test_sessions_share_a_key_in_every_mode_but_off(harness: PrefixHarness, mode: PlanningMode):
    caller = CodexCaller(harness, mode)
    keys = []
    for number, name in enumerate(("ada", "grace")):
        caller.run(name, number * 3 * MINUTE)
        keys.append(last_body(harness)["prompt_cache_key"])

    assert keys[0] == keys[1] not in ("ada", "grace")


def test_sessions_of_two_teams_share_no_key_and_read_nothing_of_each_other(
    harness: PrefixHarness,
):
    rival = harness.gateway.store.teams.create("rival", now=START)
    other = harness.gateway.store.teams.create_key(rival.id, "first", now=START)[1]
    place = LayoutScope(rival.id, FEATURE)
    harness.gateway.store.layouts.switch(place, PlanningMode.OBSERVE, "test", START)
    CodexCaller(harness, PlanningMode.OBSERVE).run("ada", 0.0, 2)
    mine = last_body(harness)["prompt_cache_key"]
    (theirs,) = CodexCaller(harness, PlanningMode.OBSERVE, other).run("grace", 3 * MINUTE)

    assert theirs.cache_read == 0
    assert last_body(harness)["prompt_cache_key"] != mine


def test_a_receipt_says_that_the_key_is_shared_and_what_that_saved(harness: PrefixHarness):
    caller = CodexCaller(harness, PlanningMode.OBSERVE)
    receipts = []
    for number, name in enumerate(("ada", "grace")):
        caller.run(name, number * 3 * MINUTE)
        receipts.append(receipt_of(harness, caller.call_id))
    first, second = receipts

    assert NOTE in second.notes
    assert (first.planning_nanos or 0) <= 0 < (second.planning_nanos or 0)


def test_nine_short_sessions_a_few_seconds_apart_read_what_they_share(harness: PrefixHarness):
    caller = CodexCaller(harness, PlanningMode.OBSERVE)
    firsts = [caller.run(f"s{n}", 6.0 * n, 2, step=3.0)[0] for n in range(9)]
    shared = stable_tokens(firsts[0].prompt_tokens, codex_body("s0", "s0/project", MODEL))

    assert sum(usage.cache_read >= 0.9 * shared for usage in firsts) >= 6
