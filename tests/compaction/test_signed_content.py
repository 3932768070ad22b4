"""Conversations of models that think: what goes, what stays, and that no prefix moves."""

from collections.abc import Sequence
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.compact import CompactedChat, compact
from compaction.conversation_view import view_conversation
from compaction.cost_model import CompactionReason
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from compaction.reading.chat_validation import chat_faults
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.signed_content import changeable_messages
from tests.fakes.chat_messages import assistant, client_requests, system, tool_call_and_result, user

_PRICES = RelativePrices(read=0.1, write=1.25)
#: A provider whose closed turns may go; one that binds thinking to all before it.
_FREE = CompactionPolicy(force=True, least=300, prices=_PRICES, drops_signed=True)
_BOUND = CompactionPolicy(force=True, least=300, prices=_PRICES, thinks=True)


def thinking(raw: bytes, number: int) -> bytes:
    """An answer with the thinking that came before it."""
    block = {"type": "thinking", "thinking": f"hm {number}", "signature": f"sig{number}"}
    return orjson.dumps({**orjson.loads(raw), "thinking_blocks": [block]})


def desk(turns: int, signs: Sequence[bool] = (), steps: int = 1) -> list[bytes]:
    """A desk that looks up something in each turn; each answer signed as said, the last rule on."""
    raws, answers = [system("You help.")], 0

    def answer(raw: bytes) -> bytes:
        nonlocal answers
        answers += 1
        signed = signs[min(answers, len(signs)) - 1] if signs else True
        return thinking(raw, answers) if signed else raw

    for turn in range(turns):
        raws.append(user(f"Where is parcel AB-{turn}77-X?"))
        for step in range(steps):
            record = {"parcel": f"AB-{turn}77-X", "open": [True] * 60, "page": step}
            call, result = tool_call_and_result("track", {"id": turn, "page": step}, record)
            raws += [answer(call), result]
        raws.append(answer(assistant(f"It is at stop {turn}. " + "All is well. " * 60)))
    return [*raws, user("Thank you.")]


def each_call(raws: list[bytes], policy: CompactionPolicy) -> list[CompactedChat]:
    memory = CompactionMemory()
    return [compact(call, policy, memory=memory) for call in client_requests(raws)]


def test_closed_turns_go_with_their_thinking_where_the_provider_lets_them():
    raws = desk(12)

    compacted = compact(raws, _FREE, memory=CompactionMemory())

    assert compacted.segments
    assert b"sig1" not in b"".join(compacted.messages)
    assert not chat_faults(compacted.messages)
    kept = [raw for raw in compacted.messages if b"thinking_blocks" in raw]
    assert kept
    assert all(any(raw is came for came in raws) for raw in kept)


def test_the_turn_under_way_stays_whole_where_it_thinks():
    raws = [*desk(1, steps=40)[:-1]]  # one wish, forty steps, no end yet
    raws = raws[:-1]

    compacted = compact(raws, _FREE, memory=CompactionMemory())

    assert not compacted.segments
    assert [raw for raw in compacted.messages if b"thinking_blocks" in raw] == [
        raw for raw in raws if b"thinking_blocks" in raw
    ]


def test_a_cut_is_where_a_turn_begins():
    raws = desk(8, steps=6)
    compacted = each_call(raws, _FREE)[-1]

    assert compacted.segments
    for segment in compacted.segments:
        assert orjson.loads(raws[segment.end])["role"] == "user"


def test_thinking_that_is_bound_to_its_prefix_lets_nothing_change():
    raws = desk(12)

    compacted = each_call(raws, _BOUND)

    assert not any(call.changed for call in compacted)
    assert compacted[-1].reason == CompactionReason.SIGNED


def test_a_caller_that_returns_no_thinking_is_compacted_once_its_answers_show_it():
    raws = desk(12, signs=[False])

    compacted = each_call(raws, _BOUND)

    assert not any(call.changed for call in compacted[:4])
    assert compacted[2].reason == CompactionReason.THINKS
    assert compacted[-1].segments


@pytest.mark.parametrize("policy", [_BOUND, CompactionPolicy(force=True, least=300)])
def test_compacted_turns_stay_compacted_once_signed_content_comes(policy: CompactionPolicy):
    raws = desk(12, signs=[False] * 12 + [True])

    calls = each_call(raws, policy)

    assert calls[-1].segments
    assert calls[-1].reason == CompactionReason.SIGNED
    first = next(i for i, call in enumerate(calls) if b"sig" in b"".join(call.messages))
    for before, after in pairwise(calls[first - 1 :]):
        assert after.messages[: len(before.messages)] == before.messages


def test_results_are_not_trimmed_before_thinking_that_is_bound():
    policy = CompactionPolicy(mode=CompactionMode.TRIM, thinks=True)

    assert not any(call.changed for call in each_call(desk(6), policy))


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(2, 7), st.integers(1, 3))
def test_bound_thinking_always_follows_what_it_followed_when_it_came(
    signs: list[bool], turns: int, steps: int
):
    raws = desk(turns, signs, steps)
    calls = each_call(raws, _BOUND)

    sent = [call.messages for call in calls]
    for number, messages in enumerate(sent[:-1]):
        answer = client_requests(raws)[number + 1][len(client_requests(raws)[number])]
        if b'"sig' in answer:
            for later in sent[number + 1 :]:
                assert later[: len(messages)] == messages


def test_messages_may_change_after_four_answers_without_thinking():
    def first_changeable(answers: int) -> int:
        raws = [raw for _ in range(answers) for raw in (user("a"), assistant("b"))]
        view = view_conversation(ParsedMessageCache().messages([*raws, user("c")]))
        return changeable_messages(view, _BOUND).start

    assert first_changeable(3) == 3 * 2 + 2  # behind the last message: none may
    assert first_changeable(4) == first_changeable(5) == 4 * 2
