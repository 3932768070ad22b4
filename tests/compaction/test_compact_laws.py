"""Any conversation: what is sent is valid and extends what was sent."""

import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.compact import compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from compaction.reading.chat_validation import chat_faults
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.token_estimate import estimate_tokens
from compaction.reading.turns import call_points
from tests.examples import examples
from tests.fakes.chat_messages import (
    assistant,
    parallel_tool_calls,
    system,
    tool_call_and_result,
    user,
)


def messages_of_kind(number: int, kind: str) -> list[bytes]:
    if kind == "u":
        return [user(f"user {number} wants ID{number}77 " + "please " * 60)]
    if kind == "a":
        return [assistant(f"assistant {number} " + "sure " * 60)]
    if kind == "t":
        return tool_call_and_result(
            "get", {"n": number}, {"id": f"R{number}88", "x": "y " * 200}, f"t{number}"
        )
    return parallel_tool_calls([("f", {"n": number}, "z " * 300), ("g", {"n": number}, "w " * 300)])


def without_positions(faults: Iterable[str]) -> set[str]:
    """The faults of a conversation, wherever compaction moved their messages."""
    return {re.sub(r"messages\[\d+\]", "messages", fault) for fault in faults}


@pytest.mark.slow
@examples(20, deadline=None)
@given(st.lists(st.sampled_from("uatp"), min_size=1, max_size=40), st.integers(1, 4))
def test_any_conversation_is_sent_valid_and_extends_its_previous_prompt(
    kinds: list[str], keep: int
):
    raws = [system("s")]
    for index, kind in enumerate(["u", *kinds, "u"]):
        raws += messages_of_kind(index, kind)
    policy = CompactionPolicy(force=True, least=400, keep_turns=keep)
    memory = CompactionMemory()
    sent_messages: tuple[bytes, ...] = ()
    answered = call_points(ParsedMessageCache().messages(raws, estimate_tokens))

    for index in range(2, len(raws) + 1):
        compacted = compact(raws[:index], policy, memory=memory)
        assert compact(raws[:index], policy, memory=CompactionMemory()) == compacted
        faults = without_positions(chat_faults(compacted.messages, before=raws[:index]))
        assert faults <= without_positions(chat_faults(raws[:index]))
        if index in answered:
            assert compacted.reset or compacted.messages[: len(sent_messages)] == sent_messages
            sent_messages = compacted.messages


@pytest.mark.slow
@examples(20, deadline=None)
@given(st.lists(st.sampled_from("uatp"), min_size=8, max_size=40), st.data())
def test_an_edited_conversation_is_compacted_as_if_it_were_seen_first(
    kinds: list[str], data: st.DataObject
):
    raws = [system("s")]
    for index, kind in enumerate(["u", *kinds, "u"]):
        raws += messages_of_kind(index, kind)
    place = data.draw(st.integers(0, len(raws) - 1))
    edited = [*raws]
    edited[place] = raws[place].replace(b" ", b" edited ID5511 ", 1)
    policy = CompactionPolicy(force=True, once=True, target=data.draw(st.integers(200, 2_000)))
    memory = CompactionMemory()
    compact(raws, policy, memory=memory)

    assert compact(edited, policy, memory=memory) == compact(
        edited, policy, memory=CompactionMemory()
    )


@pytest.mark.slow
@examples(20, deadline=None)
@given(
    st.lists(st.sampled_from("uatpr"), min_size=1, max_size=60),
    st.sampled_from(
        [
            RelativePrices(),
            RelativePrices(read=0.1, least=512, block=1_024),
            RelativePrices(least=4_096),
        ]
    ),
)
def test_a_conversation_that_is_only_trimmed_never_goes_back(
    kinds: list[str], prices: RelativePrices
):
    page = "\n".join(f"{n} one line of a page" for n in range(60))
    raws = [system("s")]
    for index, kind in enumerate(["u", *kinds, "u"]):
        raws += (
            tool_call_and_result("open", {"n": index}, page, f"r{index}")
            if kind == "r"
            else messages_of_kind(index, kind)
        )
    policy, memory = CompactionPolicy(mode=CompactionMode.TRIM, prices=prices), CompactionMemory()
    sent_messages: tuple[bytes, ...] = ()

    for index in range(2, len(raws) + 1):
        compacted = compact(raws[:index], policy, memory=memory)
        assert (
            compact(raws[:index], policy, memory=CompactionMemory()).messages == compacted.messages
        )
        assert compacted.messages[: len(sent_messages)] == sent_messages
        assert compacted.tokens_after <= compacted.tokens_before
        assert not compacted.reset
        sent_messages = compacted.messages
