"""Planning remembers within its bytes, and no team pushes another's out."""

import gc
import sys
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, MethodType

import msgspec
import pytest

from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.layouts.tool_order import Toolsets
from proxy.prefix.planner import Planner
from proxy.prefix.team_indexes import TeamIndexes, TeamMemory
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import StoredMarkAccount
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    NOW,
    SECRET,
    TARGETS,
    body,
    chat_message,
    conversation_messages,
    planning_request,
)

MAX_BYTES = 500_000
#: What one call may add before the next one drops what is too much.
SLACK_BYTES = 50_000
_PROGRAM = (type, FunctionType, MethodType, BuiltinFunctionType)


def deep_bytes(root: object) -> int:
    """Bytes of an object and of all that it refers to."""
    counted: set[int] = set()
    size, waiting = 0, [root]
    while waiting:
        item = waiting.pop()
        if id(item) in counted or isinstance(item, _PROGRAM):
            continue
        counted.add(id(item))
        size += sys.getsizeof(item)
        waiting += gc.get_referents(item)
        if isinstance(item, msgspec.Struct):
            waiting += [getattr(item, name) for name in item.__struct_fields__]
    return size


class TeamCalls:
    """Calls of one team."""

    def __init__(self, planner: Planner, name: str) -> None:
        self.planner, self.name = planner, name
        self.now = NOW

    def call(self, opening: str, turns: int = 0, regime: str = "openai-breakpoint") -> None:
        """A call of a conversation, planned, answered and learned from."""
        self.now += 1.0
        raw = body(*conversation_messages(turns, opening=opening))
        draft = self.planner.read_call(planning_request(raw, team=self.name))
        plan = self.planner.known_plan(draft) or self.planner.begin_plan(draft, 0)
        planned = self.planner.plan_call(draft, TARGETS[regime], plan, None, self.now)
        self.planner.adopt_plan(draft, planned.plan)
        self.planner.learn(planned, Usage(input=planned.evidence.sent.estimate))

    def conversations(self, names: Sequence[str], turns: int = 3) -> None:
        """Conversations one after the other, each of so many answers."""
        for name in names:
            for turn in range(turns + 1):
                self.call(name, turn)

    def remembers(self, opening: str) -> bool:
        """True if the conversation's plan is still known."""
        raw = body(*conversation_messages(0, opening=opening))
        draft = self.planner.read_call(planning_request(raw, team=self.name))
        return self.planner.known_plan(draft) is not None


@pytest.mark.parametrize("regime", ["anthropic-breakpoint", "openai-breakpoint", "block-chain"])
def test_many_calls_keep_the_remembered_bytes_within_their_bound(regime):
    planner = Planner(SECRET, share=0.0, max_bytes=MAX_BYTES)
    team, sizes = TeamCalls(planner, "team"), []
    for number in range(250):
        team.call(f"opening {number}", regime=regime)
        team.call(f"opening {number}", 1, regime=regime)
        sizes.append(planner.memory.size_bytes)

    assert max(sizes) <= MAX_BYTES + SLACK_BYTES
    assert min(sizes[-50:]) > MAX_BYTES / 2


def test_calls_that_are_read_and_never_answered_stay_within_the_bound():
    planner, sizes = Planner(SECRET, share=0.0, max_bytes=MAX_BYTES), []
    for number in range(400):
        raw = body(*conversation_messages(20, opening=f"opening {number}"))
        planner.read_call(planning_request(raw, team="team"))
        sizes.append(planner.memory.size_bytes)

    assert max(sizes) <= MAX_BYTES
    assert max(sizes) > MAX_BYTES / 2


def test_the_estimated_bytes_of_a_team_are_about_those_that_it_takes():
    planner = Planner(SECRET, share=0.0)
    team = TeamCalls(planner, "team")
    for regime in ("anthropic-breakpoint", "openai-breakpoint", "openai-interval", "block-chain"):
        for number in range(60):
            for turn in range(4):
                team.call(f"{regime} {number}", turn, regime)
    indexes = planner.memory.trim("team")

    assert 0.7 < indexes.size_bytes / deep_bytes(indexes) < 1.5


def test_the_conversation_used_longest_ago_is_forgotten_first():
    planner = Planner(SECRET, share=0.0, max_bytes=MAX_BYTES)
    team = TeamCalls(planner, "team")
    team.conversations(["first", "used", *map(str, range(30))])
    for number in range(30, 120):
        team.conversations([str(number)])
        team.call("used", 3)

    assert (team.remembers("first"), team.remembers("used")) == (False, True)
    assert (team.remembers("30"), team.remembers("119")) == (False, True)


def test_a_busy_team_pushes_out_nothing_of_a_team_with_less_than_an_even_part():
    planner = Planner(SECRET, share=0.0, max_bytes=MAX_BYTES)
    quiet, busy = TeamCalls(planner, "quiet"), TeamCalls(planner, "busy")
    quiet.conversations(["mine"])
    busy.conversations(list(map(str, range(200))))

    assert quiet.remembers("mine")
    assert not busy.remembers("0")
    assert planner.memory.size_bytes <= MAX_BYTES + SLACK_BYTES


def test_a_team_without_a_call_for_an_hour_gives_way_before_a_busy_one():
    planner = Planner(SECRET, share=0.0, max_bytes=MAX_BYTES)
    idle, busy = TeamCalls(planner, "idle"), TeamCalls(planner, "busy")
    idle.conversations(list(map(str, range(20))))
    busy.now += 4_000.0
    busy.conversations(["mine", *map(str, range(37))])

    assert not idle.remembers("0")
    assert busy.remembers("mine")
    assert planner.memory.trim("busy").size_bytes <= MAX_BYTES


def test_teams_without_number_are_forgotten():
    planner = Planner(SECRET, share=0.0, max_bytes=MAX_BYTES)
    for number in range(500):
        TeamCalls(planner, f"team {number}").call("hello")

    assert planner.memory.size_bytes <= MAX_BYTES + SLACK_BYTES
    assert 0 < len(planner.memory) < 100
    assert TeamCalls(planner, "team 499").remembers("hello")


def test_a_plan_of_many_tools_counts_with_its_bytes():
    indexes = TeamIndexes(DEFAULT_STAKE, b"")
    memory = TeamMemory(lambda *_: indexes, 10**9)
    memory.trim("team")
    before = memory.size_bytes
    indexes.adopt_plan(b"name", Plan(tools=tuple(f"{number:032x}" for number in range(1_000))))
    memory.trim("team")
    grown = memory.size_bytes - before
    indexes.adopt_plan(b"name", Plan())

    assert grown > 80_000
    assert memory.trim("team").size_bytes < before + 10_000


def test_bodies_that_cannot_be_planned_are_bounded_too():
    planner = Planner(SECRET, share=0.0, max_bytes=MAX_BYTES)
    for number in range(300):
        messages = [chat_message("user", f"{number} {index}") for index in range(20)]
        planner.read_call(planning_request(body(*messages)))

    assert planner.memory.size_bytes <= MAX_BYTES + SLACK_BYTES


def test_team_that_calls_keeps_its_stake_however_many_other_teams_are_heard_of():
    memory = Planner(SECRET).memory
    stake = memory.of("team", NOW).agent_keys.team
    for number in range(10_001):
        memory.stake_of(f"other {number}")
    memory.of("team", NOW)

    assert memory.team_stakes.peek("team") is stake
    assert 9_900 < len(memory.team_stakes) <= 10_000


def test_all_teams_take_96_mebibytes_by_default():
    assert Planner(SECRET).memory.max_bytes == 100_663_296


def test_an_empty_team_its_scopes_and_its_lists_of_tools_count_their_bytes():
    indexes = TeamIndexes(DEFAULT_STAKE, b"")
    assert indexes.size_bytes == 12_000
    scope = LayoutScope("team", "desk", "gpt")
    indexes.left_out.put(scope, 1)
    indexes.toolsets.put(scope, Toolsets())

    assert indexes.size_bytes == 12_000 + 200 + 16_000


def test_the_latest_16_entries_of_each_index_are_not_dropped_in_part():
    indexes = TeamIndexes(DEFAULT_STAKE, b"")
    for number in range(20):
        indexes.left_out.put(LayoutScope("team", str(number), "gpt"), 1)
    for _ in range(20):
        indexes.drop_oldest()

    assert len(indexes.left_out) == 16


@pytest.mark.parametrize(("silent_s", "left"), [(3_600.0, ["idle", "busy"]), (3_601.0, ["busy"])])
def test_a_team_gives_way_to_a_larger_one_after_an_hour_without_a_call(
    silent_s: float, left: list[str]
):
    memory = TeamMemory(lambda *_: TeamIndexes(DEFAULT_STAKE, b""), 20_000)
    memory.of("idle", NOW)
    memory.of("busy", NOW + silent_s).left_out.put(LayoutScope("busy", "desk", "gpt"), 1)
    memory.trim("idle")
    memory.trim("busy")

    assert [*memory._teams] == left


def test_accounts_of_10000_features_are_at_hand():
    memory = Planner(SECRET).memory
    for number in range(10_100):
        memory.adopt_account(StoredMarkAccount(scope=LayoutScope("team", str(number), "gpt")))

    assert 9_900 < len(memory._accounts) <= 10_000
