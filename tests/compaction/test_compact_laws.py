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


def messages_of_kind(at: int, kind: str) -> list[bytes]:
    if kind == "u":
        return [user(f"user {at} wants ID{at}77 " + "please " * 60)]
    if kind == "a":
        return [assistant(f"assistant {at} " + "sure " * 60)]
    if kind == "t":
        return tool_call_and_result("get", {"n": at}, {"id": f"R{at}88", "x": "y " * 200}, f"t{at}")
    return parallel_tool_calls([("f", {"n": at}, "z " * 300), ("g", {"n": at}, "w " * 300)])


def without_positions(faults: Iterable[str]) -> set[str]:
    """The faults of a conversation, wherever compaction moved their messages."""
    return {re.sub(r"messages\[\d+\]", "messages", each) for each in faults}


@pytest.mark.slow
@examples(20, deadline=None)
@given(st.lists(st.sampled_from("uatp"), min_size=1, max_size=40), st.integers(1, 4))
def test_whatever_is_said_what_is_sent_is_valid_and_extends_what_was_sent(
    kinds: list[str], keep: int
):
    raws = [system("s")]
    for at, kind in enumerate(["u", *kinds, "u"]):
        raws += messages_of_kind(at, kind)
    policy = CompactionPolicy(force=True, least=400, keep_turns=keep)
    memory = CompactionMemory()
    sent: tuple[bytes, ...] = ()
    answered = call_points(ParsedMessageCache().messages(raws, estimate_tokens))

    for at in range(2, len(raws) + 1):
        found = compact(raws[:at], policy, memory=memory)
        assert compact(raws[:at], policy, memory=CompactionMemory()) == found
        faults = without_positions(chat_faults(found.messages, before=raws[:at]))
        assert faults <= without_positions(chat_faults(raws[:at]))
        if at in answered:
            assert found.reset or found.messages[: len(sent)] == sent
            sent = found.messages


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
    for at, kind in enumerate(["u", *kinds, "u"]):
        raws += (
            tool_call_and_result("open", {"n": at}, page, f"r{at}")
            if kind == "r"
            else messages_of_kind(at, kind)
        )
    policy, memory = CompactionPolicy(mode=CompactionMode.TRIM, prices=prices), CompactionMemory()
    sent: tuple[bytes, ...] = ()

    for at in range(2, len(raws) + 1):
        found = compact(raws[:at], policy, memory=memory)
        assert compact(raws[:at], policy, memory=CompactionMemory()).messages == found.messages
        assert found.messages[: len(sent)] == sent
        assert found.tokens_after <= found.tokens_before
        assert not found.reset
        sent = found.messages
