from math import inf

import msgspec

from compaction.policy import CompactionPolicy
from proxy.records.compaction_result import CompactionResult, passthrough_result
from proxy.records.origin import Origin
from proxy.services.compaction.body import Talk
from proxy.services.compaction.conversations import Now, Talks
from tests.proxy.services.compaction.foldings import NOW, chat

TALK = Talk(name=b"a", lead=1, messages=(b"{}",), turns=4)
POLICY = CompactionPolicy()
OTHER = CompactionPolicy(force=True)
FOLDED = CompactionResult(
    mode="facts", why="pays", sent=chat(body=b"{}"), is_folded=True, needed=3, lost=1
)
LATE = passthrough_result("facts", "late")
CAME = chat()


def sent(*steps, lives=inf):
    """What each call becomes; a step is a fold, the policy it stands for, and the seconds since."""
    talks, at, found = Talks(), NOW, []
    for fold, policy, *gap in steps:
        at += gap[0] if gap else 1
        now = Now(fold=fold, talk=TALK, policy=policy, at=at, lives=lives)
        found.append(talks.noted(CAME, now))
    return found


def test_there_and_back_are_resets_and_both_say_so():
    first, late, back, on = sent((FOLDED, POLICY), (LATE, None), (FOLDED, POLICY), (FOLDED, POLICY))

    assert [each.reset for each in (first, late, back, on)] == [False, True, True, False]
    assert late.sent is not None
    assert late.sent.body is CAME.body
    assert late.sent.origin == Origin(messages=(b"{}",), turns=4, reset=True)
    assert back.sent is not None
    assert back.sent.body == b"{}"
    assert back.sent.origin == late.sent.origin
    assert late.conversation == b"a"


def test_a_fold_that_was_due_while_it_went_as_it_came_is_a_reset():
    _, late, folded = sent((LATE, POLICY), (LATE, None), (FOLDED, POLICY))

    assert (late.reset, late.sent) == (False, None)
    assert folded.reset


def test_a_reset_of_the_fold_itself_is_left_as_it_is():

    reset = msgspec.structs.replace(FOLDED, reset=True)
    _, found = sent((LATE, POLICY), (reset, POLICY))

    assert found.sent is reset.sent


def test_another_policy_moves_what_is_folded():
    assert [each.reset for each in sent((FOLDED, POLICY), (FOLDED, OTHER))] == [False, True]
    assert [each.reset for each in sent((LATE, POLICY), (LATE, OTHER))] == [False, False]


def test_what_calls_needed_that_were_written_with_it_sent_otherwise_does_not_count():
    found = sent((FOLDED, POLICY), (FOLDED, POLICY), (LATE, None), (FOLDED, POLICY))

    assert [each.needed for each in found] == [3, 3, 0, 0]


def test_a_conversation_that_was_idle_for_longer_than_a_cache_lives_is_cold():
    found = sent((FOLDED, POLICY), (FOLDED, POLICY, 10), (FOLDED, POLICY, 400), lives=300)

    assert [each.is_warm for each in found] == [True, True, False]
