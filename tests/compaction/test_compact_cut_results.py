"""Long results of agents: whole once, then head and tail, and nothing moves afterwards."""

from collections.abc import Sequence
from itertools import pairwise

import orjson
import pytest

from compaction.compact import CompactedChat, compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from compaction.reading.chat_validation import chat_faults
from tests.fakes.chat_messages import client_requests, system, tool_call_and_result, user

WARM = CompactionPolicy(prices=RelativePrices(read=0.1, write=1.25), least=500)


def compact_calls(raws: list[bytes], policy: CompactionPolicy) -> list[CompactedChat]:
    """Each call of a conversation, as it is sent."""
    memory = CompactionMemory()
    return [compact(call, policy, memory=memory) for call in client_requests(raws)]


def once(raws: Sequence[bytes]) -> CompactedChat:
    return compact(raws, WARM, memory=CompactionMemory(), names_lost=True)


def build(steps: int, log_lines: int = 150) -> list[bytes]:
    """One wish, and an agent that builds again and again, each time with another long log."""
    chat = [system("You are a careful engineer. " * 40), user("Make the build pass.")]
    for step in range(steps):
        log = "\n".join(f"[{step}] compiled unit {n} in {n * 7} ms" for n in range(log_lines))
        chat += tool_call_and_result("bash", {"command": f"make target{step}/all"}, log, f"c{step}")
    return chat


def test_a_long_log_is_sent_whole_once_and_then_as_head_and_tail():
    calls = compact_calls(build(8), WARM)
    logs = [
        [len(raw) for raw in call.messages if b'"role":"tool"' in raw.replace(b" ", b"")]
        for call in calls
    ]

    assert all(sizes[-1] > 3_000 for sizes in logs[1:])
    assert all(size < 600 for sizes in logs[1:] for size in sizes[:-1])
    assert calls[-1].cut_results == 7
    assert calls[-1].tokens_after < 0.5 * calls[-1].tokens_before
    assert not any(chat_faults(call.messages) for call in calls)


def test_a_result_that_was_cut_once_stays_as_it_is():
    calls = [call.messages for call in compact_calls(build(8), WARM)]

    for before, after in pairwise(calls):
        assert after[: len(before) - 1] == before[:-1]


def test_any_process_cuts_the_same_results():
    raws = build(8)

    assert once(raws).messages == (compact_calls(raws, WARM))[-1].messages


def test_a_result_that_comes_again_after_it_was_cut_stays_whole():
    raws = build(3)
    again = [*raws, *raws[2:4], *build(5)[8:]]

    last = (compact_calls(again, WARM))[-1]

    assert sum(b"compiled unit 99 " in raw for raw in last.messages) == 2
    assert last.messages[9] is again[9]


@pytest.mark.parametrize(
    "policy",
    [
        CompactionPolicy(mode=CompactionMode.TRIM, prices=WARM.prices),
        CompactionPolicy(prices=RelativePrices(read=0.01, write=1.25), least=500),
    ],
)
def test_results_stay_whole_in_trim_and_where_cutting_them_would_cost(policy: CompactionPolicy):
    assert not (compact_calls(build(5), policy))[-1].cut_results


def test_values_of_cut_results_that_a_later_call_needed_are_counted():
    raws = build(6, log_lines=80)
    needed = orjson.loads(raws[2])
    log = orjson.loads(raws[3])
    log["content"] = log["content"].replace("compiled unit 40 ", "compiled ORD-4711-XY ")
    ask = tool_call_and_result("bash", {"command": "make ORD-4711-XY"}, "done")
    assert needed["tool_calls"]

    calls = compact_calls([*raws[:3], orjson.dumps(log), *raws[4:], *ask], WARM)

    assert calls[-1].evidence is not None
    assert (calls[-1].evidence.needed, calls[-1].evidence.lost) == (1, 1)
    assert "ORD-4711-XY" not in once([*raws[:3], orjson.dumps(log), *raws[4:], *ask]).lost
