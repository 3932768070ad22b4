"""Sessions of Claude Code's shape through a gateway, on the caches of providers and engines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.records.agents import BACKGROUND_FEATURE
from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.fakes.claude_code_sessions import (
    HEADERS,
    STABLE,
    SUBAGENT,
    claude_code_body,
    session_title_body,
)
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

FEATURE = "claude-code"
MINUTE = 60.0
CACHES = ["anthropic-breakpoint", "openai-breakpoint", "block-chain"]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        yield running


class ClaudeCodeCaller:
    """Runs sessions one call after the other, each in a folder of its own."""

    def __init__(self, harness: PrefixHarness, model: str, mode: PlanningMode) -> None:
        self.harness = harness
        self.model = model
        harness.plan(FEATURE, mode)

    def run(self, session: str, now: float, calls: int = 1, *, rules: str = STABLE) -> list[Usage]:
        """Run a session; return what each call was charged."""
        return [self._call(session, now + 10.0 * turn, turn, rules) for turn in range(calls)]

    def name_session(self, session: str, now: float) -> Usage:
        """Have a session named in the background; return what the call was charged."""
        return self._send(session_title_body(session, self.model), session, now)

    def _call(self, session: str, now: float, turn: int, rules: str) -> Usage:
        return self._send(claude_code_body(session, self.model, turn, rules=rules), session, now)

    def _send(self, body: dict[str, Any], session: str, now: float) -> Usage:
        harness = self.harness
        harness.clock.past = now
        answer = harness.client.post(
            f"{harness.url}/messages?beta=true",
            content=orjson.dumps(body),
            headers={
                **HEADERS,
                "x-api-key": harness.key,
                "content-type": "application/json",
                "x-claude-code-session-id": session,
            },
        )
        assert answer.status_code == 200, answer.text
        harness._wait_until_learned()
        charged = harness.lab.exchanges[-1].usage
        assert charged is not None
        return charged


def shared_tokens(first: Usage) -> int:
    """Tokens of tools and shared instructions, where the whole prompt has as many as this."""
    body = claude_code_body("ada", "any")
    own = body["system"][2]["text"].partition("Your memory is at")[2]
    words = [own, *(part["text"] for part in body["messages"][0]["content"])]
    return first.prompt_tokens - sum(map(len, words)) // 3


@pytest.mark.parametrize("cache", CACHES)
def test_a_second_session_in_another_folder_reads_tools_and_stable_text(
    harness: PrefixHarness, cache: str
) -> None:
    caller = ClaudeCodeCaller(harness, MODELS[cache], PlanningMode.OBSERVE)
    first, *_ = caller.run("ada", 0.0, 3)
    second, *later = caller.run("grace", 3 * MINUTE, 3)

    assert first.cache_read == 0
    assert 0.9 * shared_tokens(first) <= second.cache_read <= second.prompt_tokens
    for usage in later:
        assert usage.cache_read > 0.9 * second.prompt_tokens


@pytest.mark.parametrize("cache", CACHES)
def test_a_subagent_in_another_folder_reads_what_a_subagent_sent(
    harness: PrefixHarness, cache: str
) -> None:
    caller = ClaudeCodeCaller(harness, MODELS[cache], PlanningMode.OBSERVE)
    caller.run("ada", 0.0, 2)
    (first,) = caller.run("ada-agent", MINUTE, rules=SUBAGENT)
    caller.run("grace", 3 * MINUTE, 2)
    (second,) = caller.run("grace-agent", 4 * MINUTE, rules=SUBAGENT)

    assert 0.9 * shared_tokens(first) <= second.cache_read


def test_a_first_subagent_on_gpt_still_reads_the_tools_of_its_session(
    harness: PrefixHarness,
) -> None:
    caller = ClaudeCodeCaller(harness, MODELS["openai-breakpoint"], PlanningMode.OBSERVE)
    caller.run("ada", 0.0)
    (subagent,) = caller.run("ada-agent", MINUTE, rules=SUBAGENT)
    tools = orjson.dumps(claude_code_body("ada", "any")["tools"])

    assert subagent.cache_read > 0.9 * len(tools) // 6


@pytest.mark.parametrize("cache", CACHES)
def test_the_titles_of_sessions_are_booked_apart_and_change_nothing_in_what_these_read(
    harness: PrefixHarness, cache: str
) -> None:
    caller = ClaudeCodeCaller(harness, MODELS[cache], PlanningMode.OBSERVE)
    alone = [*caller.run("ada", 0.0, 2), *caller.run("grace", 3 * MINUTE, 2)]
    harness.turn()
    harness.plan(BACKGROUND_FEATURE, PlanningMode.OBSERVE)
    caller.name_session("ida", -5.0)
    beside = caller.run("ida", 0.0, 2)
    caller.name_session("maria", 2 * MINUTE)
    beside += caller.run("maria", 3 * MINUTE, 2)
    spent = harness.spend_by_feature()

    assert {name: spend.calls for name, spend in spent.items()} == {
        FEATURE: 8,
        BACKGROUND_FEATURE: 2,
    }
    for one, other in zip(beside[2:], alone[2:], strict=True):
        assert abs(one.cache_read - other.cache_read) < 0.01 * one.prompt_tokens


def test_sent_unplanned_to_claude_a_second_session_reads_nothing(harness: PrefixHarness) -> None:
    caller = ClaudeCodeCaller(harness, MODELS["anthropic-breakpoint"], PlanningMode.OFF)
    first, *_ = caller.run("ada", 0.0, 3)
    (second,) = caller.run("grace", 3 * MINUTE)

    assert first.prompt_tokens > 10_000
    assert second.cache_read == 0
