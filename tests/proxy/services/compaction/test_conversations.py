import tracemalloc
from math import inf

import msgspec

from compaction.policy import CompactionPolicy, RelativePrices
from proxy.records.call import UncompactedConversation
from proxy.records.compaction_result import CompactionResult, passthrough_result
from proxy.services.compaction.chat_body import ConversationIdentity
from proxy.services.compaction.conversations import (
    ConversationTracker,
    CoolDowns,
    SentConversation,
    _Sent,
)
from tests.proxy.services.compaction.compaction_fixtures import NOW, chat

COOL_DOWN_S = 600.0
REFUSALS_TO_COOL_FEATURE = 3

TALK = ConversationIdentity(name=b"a", lead=1, messages=(b"{}",), turns=4)
POLICY = CompactionPolicy()
OTHER = CompactionPolicy(force=True)
COMPACTED = CompactionResult(
    mode="facts", why="pays", sent=chat(body=b"{}"), is_compacted=True, needed=3, lost=1
)
LATE = passthrough_result("facts", "late")
CAME = chat()


def track_calls(*steps, lives=inf):
    """The result of each call; a step is a compaction, its policy, and the seconds since."""
    talks, time, results = ConversationTracker(), NOW, []
    for compaction, policy, *gap in steps:
        time += gap[0] if gap else 1
        now = SentConversation(
            result=compaction, conversation=TALK, policy=policy, at=time, cache_lifetime_s=lives
        )
        results.append(talks.track(CAME, now))
    return results


def test_there_and_back_are_resets_and_both_say_so():
    first, late, returned, on = track_calls(
        (COMPACTED, POLICY), (LATE, None), (COMPACTED, POLICY), (COMPACTED, POLICY)
    )

    assert [result.reset for result in (first, late, returned, on)] == [False, True, True, False]
    assert late.sent is not None
    assert late.sent.body is CAME.body
    assert late.sent.origin == UncompactedConversation(messages=(b"{}",), turns=4, reset=True)
    assert returned.sent is not None
    assert returned.sent.body == b"{}"
    assert returned.sent.origin == late.sent.origin
    assert late.conversation == b"a"


def test_a_compaction_due_during_an_unmodified_call_is_a_reset():
    _, late, compacted = track_calls((LATE, POLICY), (LATE, None), (COMPACTED, POLICY))

    assert (late.reset, late.sent) == (False, None)
    assert compacted.reset


def test_a_reset_of_the_compaction_itself_is_left_as_it_is():

    reset = msgspec.structs.replace(COMPACTED, reset=True)
    _, result = track_calls((LATE, POLICY), (reset, POLICY))

    assert result.sent is reset.sent


def test_a_changed_compaction_policy_moves_the_compacted_part():
    assert [result.reset for result in track_calls((COMPACTED, POLICY), (COMPACTED, OTHER))] == [
        False,
        True,
    ]
    assert [result.reset for result in track_calls((LATE, POLICY), (LATE, OTHER))] == [False, False]


def test_a_conversation_takes_few_bytes_though_each_of_its_calls_has_a_policy_of_its_own():
    talks = ConversationTracker()

    def track(number: int) -> None:
        name = number.to_bytes(16)
        talks.track(
            CAME,
            SentConversation(
                result=COMPACTED,
                conversation=ConversationIdentity(name=name, lead=1, messages=(), turns=4),
                policy=CompactionPolicy(prices=RelativePrices(read=0.1 + number), target=number),
                at=NOW + number,
                cache_lifetime_s=inf,
            ),
        )

    track(0)
    tracemalloc.start()
    for number in range(1, 4_001):
        track(number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used / 4_000 < 320


def test_needs_of_calls_written_after_another_prompt_do_not_count():
    results = track_calls(
        (COMPACTED, POLICY), (COMPACTED, POLICY), (LATE, None), (COMPACTED, POLICY)
    )

    assert [result.needed for result in results] == [3, 3, 0, 0]


def test_a_conversation_that_was_idle_for_longer_than_a_cache_lives_is_cold():
    results = track_calls(
        (COMPACTED, POLICY), (COMPACTED, POLICY, 10), (COMPACTED, POLICY, 400), lives=300
    )

    assert [result.is_warm for result in results] == [True, True, False]


PLACE = ("t", "chat")
COOL_DOWN_NOW = 1_790_000_000.0


def test_a_conversation_rests_alone_and_for_a_while():
    rests = CoolDowns()

    assert not rests.record_refusal(PLACE, b"a", COOL_DOWN_NOW)
    assert rests.is_conversation_cooling(b"a", COOL_DOWN_NOW + COOL_DOWN_S - 1)
    assert not rests.is_conversation_cooling(b"a", COOL_DOWN_NOW + COOL_DOWN_S)
    assert not rests.is_conversation_cooling(b"b", COOL_DOWN_NOW)
    assert not rests.is_feature_cooling(PLACE, COOL_DOWN_NOW)


def test_a_feature_rests_once_several_conversations_were_refused():
    rests = CoolDowns()
    cooled = [
        rests.record_refusal(PLACE, b"%d" % number, COOL_DOWN_NOW)
        for number in range(REFUSALS_TO_COOL_FEATURE)
    ]

    assert cooled == [False] * (REFUSALS_TO_COOL_FEATURE - 1) + [True]
    assert rests.is_feature_cooling(PLACE, COOL_DOWN_NOW + 1)
    assert not rests.is_feature_cooling(PLACE, COOL_DOWN_NOW + COOL_DOWN_S)
    assert not rests.is_feature_cooling(("t", "code"), COOL_DOWN_NOW)


def test_repeated_refusals_of_one_conversation_count_once():
    rests = CoolDowns()

    assert not any(rests.record_refusal(PLACE, b"a", COOL_DOWN_NOW) for _ in range(9))


def test_old_refusals_do_not_count():
    rests = CoolDowns()
    for number in range(9):
        assert not rests.record_refusal(
            PLACE, b"%d" % number, COOL_DOWN_NOW + number * COOL_DOWN_S / 2
        )


def test_where_nobody_knows_the_conversation_the_feature_rests():
    rests = CoolDowns()

    assert rests.record_refusal(PLACE, b"", COOL_DOWN_NOW)
    assert rests.is_feature_cooling(PLACE, COOL_DOWN_NOW)


def test_50000_conversations_are_remembered_and_8192_cool_down_of_1024_features():
    tracker, cool_downs = ConversationTracker(), CoolDowns()
    for number in range(50_500):
        tracker._sent.put(b"%d" % number, _Sent(None, is_compacted=True, at=NOW))
    for number in range(8_300):
        cool_downs.record_refusal(("team", str(number)), b"%d" % number, NOW)

    sizes = [len(tracker._sent), len(cool_downs._cooling_down), len(cool_downs._refused)]
    for size, most in zip(sizes, (50_000, 8_192, 1_024), strict=True):
        assert 0.98 * most < size <= most
