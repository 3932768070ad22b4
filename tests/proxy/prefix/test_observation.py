"""What answered calls tell of their feature's habits."""

from proxy.prefix.breakpoints.reuse_statistics import ReadOutcome
from proxy.prefix.conversations import ConversationState
from proxy.prefix.observation import CallObservation, observe_call
from proxy.prefix.planned import Planned
from slo.usage import Usage
from tests.proxy.prefix.askings import RULES, WAYS, Process, asked, body, talk

LONG = RULES * 3


def told(process: Process, turns: int, read: float | None = None) -> CallObservation:
    """What the call tells that so many answers precede; None reads what was to be expected."""
    planned = process.planned(asked(body(*talk(turns, LONG))))
    known = process.planner._talks.peek(planned.draft.conversation) or ConversationState()
    found = observe_call(planned, charged(planned, read), known)
    process.planner.learn(planned, charged(planned, read))
    return found


def charged(planned: Planned, read: float | None) -> Usage:
    total, expected = planned.evidence.sent.estimate, planned.evidence.expected.tokens
    count = int(expected if read is None else expected * read)
    return Usage(write_5m=total - count, cache_read=count)


def test_a_call_that_goes_on_says_how_far_its_conversation_came_and_what_it_repeats():
    process = Process(WAYS["anthropic-breakpoint"])
    first, second, third = (told(process, turns) for turns in range(3))

    assert [each.seen.before for each in (first, second, third)] == [0, 1, 2]
    assert (first.compares, second.compares, third.compares) == (False, True, True)
    assert (first.seen.extends, third.seen.extends, third.seen.left) == (None, True, 0)


def test_answers_in_a_prompt_that_nobody_knew_are_no_calls_of_its_conversation():
    found = told(Process(WAYS["anthropic-breakpoint"]), 4)

    assert found.seen.before == 0


def test_what_the_provider_read_of_what_was_to_be_expected_is_told():
    process = Process(WAYS["anthropic-breakpoint"])
    first, second = told(process, 0), told(process, 1)
    read, unread = told(process, 2), told(process, 3, read=0.0)

    assert first.seen.reads is second.seen.reads is None
    assert read.seen.reads == ReadOutcome(in_talk=True, came_true=True)
    assert unread.seen.reads == ReadOutcome(in_talk=True, came_true=False)


def test_a_cache_that_promises_nothing_tells_nothing_by_what_it_reads():
    process = Process(WAYS["openai-interval"])

    assert [told(process, turns).seen.reads for turns in range(3)] == [None, None, None]
