"""Cache keys of coding agents' sessions, by what is sent of their calls."""

from typing import Any

import msgspec
import orjson
import pytest

from proxy.prefix.agent_keys import SHARED_KEY_NOTE
from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.planned import Planned, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.prefix.prediction.prefix_chains import expected_usage
from proxy.records.mark_account import MAX_TEAM_LOSS
from slo.usage import Usage
from tests.fakes.handbook import handbook
from tests.proxy.prefix.planning_requests import (
    NOW,
    SECRET,
    TARGETS,
    PlanningProcess,
    chat_message,
    planning_request,
)

NEWEST = "openai-breakpoint"
AGENT = "You are Codex, an agent that works in folders.\n" + handbook(40, "codex")
OTHER = "You are a helpful clerk.\n" + handbook(40, "codex")
MINUTE = 60.0


def body(session: str, turns: int = 0, rules: str = AGENT, **fields: Any) -> bytes:
    """A call of a session, in the form of the Responses API."""
    folder = f"<environment_context><cwd>/home/ada/{session}</cwd></environment_context>"
    items = [chat_message("developer", rules), chat_message("user", folder)]
    for turn in range(turns):
        items.append(chat_message("assistant", f"Looked at file {turn}."))
        items.append(chat_message("user", f"Now file {turn + 1}."))
    fields = {"prompt_cache_key": session, "store": False, **fields}
    return orjson.dumps({"model": "any", "input": items, **fields})


def usage_of(planned: Planned) -> Usage:
    """Return the usage that a provider charges for what is sent."""
    sent = planned.evidence.sent
    return expected_usage(sent, planned.evidence.expected, sent.estimate)


class KeyedProcess(PlanningProcess):
    """A process whose clock a test moves."""

    def __init__(
        self,
        process: bytes = b"",
        *,
        share: float = 0.0,
        stake: float = DEFAULT_STAKE,
        **fields: Any,
    ) -> None:
        super().__init__(TARGETS[NEWEST], **fields)
        self.planner = Planner(SECRET, share=share, process=process, stake=stake)

    def call(self, raw: bytes, at: float, **fields: Any) -> Planned:
        """The call at so many seconds, planned and answered."""
        self.now = NOW + at - 10.0
        planned = self.plan(planning_request(raw, **fields))
        self.planner.settle_call(planned, usage_of(planned))
        return planned


def key_of(planned: Planned) -> Any:
    return orjson.loads(planned.body).get("prompt_cache_key")


def test_two_sessions_of_an_agent_share_a_key_and_the_second_reads_what_the_first_wrote():
    process = KeyedProcess()
    first = process.call(body("one"), 0.0)
    second = process.call(body("two"), 3 * MINUTE)

    assert key_of(first) == key_of(second) not in ("one", "two")
    assert second.notes == (SHARED_KEY_NOTE,)
    assert usage_of(first).cache_read == 0
    assert usage_of(second).cache_read > 0.9 * len(AGENT) // 4
    assert second.direct is not None
    assert second.direct.expected.tokens == 0


def test_agent_key_changes_the_key_and_the_mark_only():
    sent = orjson.loads(KeyedProcess().call(body("one"), 0.0).body)
    came = orjson.loads(body("one"))
    part = sent["input"][0]["content"][0]

    assert part.pop("prompt_cache_breakpoint") == {"mode": "explicit"}
    assert part == {"type": "input_text", "text": AGENT}
    assert list(sent) == list(came)
    assert sent["input"][1:] == came["input"][1:]


def test_a_conversation_keeps_its_key_also_in_another_process():
    plans: dict[str, bytes] = {}
    one, two = KeyedProcess(b"1", plans=plans), KeyedProcess(b"2", plans=plans)
    first = key_of(one.call(body("one"), 0.0))
    calls = [(one, two)[turn % 2].call(body("one", turn), 20.0 * turn) for turn in range(1, 8)]

    assert {key_of(call) for call in calls} == {first}


def test_a_conversation_that_begins_again_in_a_session_keeps_its_key():
    """Codex begins anew once it has compacted a conversation."""
    process = KeyedProcess()
    first = key_of(process.call(body("one"), 0.0))
    for other in ("two", "three", "four"):
        process.call(body(other), 100.0)
    again = body("one", rules=AGENT).replace(b"</cwd>", b"</cwd>Summary of what was done.")

    assert key_of(process.call(again, 110.0)) == first


def test_a_session_does_not_share_the_key_of_a_busy_one():
    process = KeyedProcess()
    for turn in range(14):
        process.call(body("busy", turn), 3 * MINUTE + 4.0 * turn)

    assert key_of(process.call(body("two"), 4 * MINUTE)) != key_of(
        process.call(body("busy", 14), 4 * MINUTE + 1)
    )


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (body("own", rules=OTHER), "own"),
        (body("own", turns=2), "own"),
        (body("own", rules="You are Codex."), "own"),
        (body("", prompt_cache_key=None), None),
        (body("", prompt_cache_key=""), ""),
    ],
    ids=["an unknown client", "met midway", "too short to be cached", "no key", "an empty key"],
)
def test_any_other_callers_key_stays(raw: bytes, key: str | None):
    assert key_of(KeyedProcess().call(raw, 0.0)) == key


@pytest.mark.parametrize(("provider", "shares"), [("openai", True), ("azure", False)])
def test_a_session_joins_another_at_once_but_where_the_limit_of_calls_is_documented(
    provider: str, *, shares: bool
):
    process = KeyedProcess()
    regime = msgspec.structs.replace(process.to.regime, provider=provider)
    process.to = msgspec.structs.replace(process.to, regime=regime)
    first, second = process.call(body("one"), 0.0), process.call(body("two"), 3.0)

    assert (key_of(first) == key_of(second)) == shares
    assert (key_of(second) == "two") != shares


def test_sessions_join_at_once_only_while_the_teams_stake_is_not_lost():
    process = KeyedProcess()
    process.call(body("one"), 0.0)
    process.planner.memory.of("team_1").agent_keys.team.record(MAX_TEAM_LOSS, NOW)

    assert key_of(process.call(body("two"), 3.0)) == "two"


@pytest.mark.parametrize("regime", sorted(TARGETS.keys() - {NEWEST}))
def test_keys_stay_where_they_do_not_part_a_cache(regime: str):
    process = PlanningProcess(TARGETS[regime])

    assert key_of(process.plan(planning_request(body("own")))) == "own"


def test_the_control_arm_keeps_its_key():
    assert key_of(KeyedProcess(share=1.0).call(body("own"), 0.0)) == "own"


def test_teams_models_and_processes_have_keys_of_their_own():
    one = KeyedProcess(b"1")
    keys = [
        key_of(one.call(body("one"), 0.0)),
        key_of(one.call(body("one"), 0.0, team="team_2")),
        key_of(KeyedProcess(b"2").call(body("one"), 0.0)),
    ]
    to: PlanningTarget = msgspec.structs.replace(TARGETS[NEWEST], model="another")
    one.to = to
    keys.append(key_of(one.call(body("two"), 0.0)))

    assert len(set(keys)) == len(keys)


def test_features_of_a_team_share_a_key():
    process = KeyedProcess()

    assert key_of(process.call(body("one"), 0.0, feature="a")) == key_of(
        process.call(body("two"), 3 * MINUTE, feature="b")
    )


@pytest.mark.parametrize(("read", "ends"), [(0.0, True), (0.89, True), (0.901, False)])
def test_a_session_that_reads_less_than_nine_tenths_ends_sharing_where_nothing_may_be_lost(
    read: float, *, ends: bool
):
    """As where a provider sends a busy key's calls to a machine that never saw them."""
    process = KeyedProcess(stake=0.0)
    process.call(body("one"), 0.0)
    process.now = NOW + 20.0
    later = process.plan(planning_request(body("one", 1)))
    expected = usage_of(later)
    reads = int(read * expected.cache_read)
    written = expected.prompt_tokens - reads
    process.planner.settle_call(later, Usage(cache_read=reads, write_30m=written))

    assert (key_of(process.call(body("two"), 60 * MINUTE)) == "two") == ends
