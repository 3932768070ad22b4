"""What is remembered of a conversation from call to call."""

from proxy.prefix.expected.openings import opening
from proxy.prefix.talks import Talk
from tests.proxy.prefix.askings import NOW, WAYS, Process, asked, body, talk

CLAUDE = WAYS["anthropic-breakpoint"]
#: Seconds between two calls that one second of a clock may hold.
SOON = 0.6


def clocked(turns: int, clock: str) -> bytes:
    """A call whose instructions open with the time."""
    rules, *rest = talk(turns)
    return body({**rules, "content": f"It is {clock}.\n{rules['content']}"}, *rest)


def sent_in_turn(*clocks: str) -> list[bool]:
    """Whether each call of a conversation was marked, calls coming faster than a clock ticks."""
    process = Process(CLAUDE)
    found = []
    for turn, clock in enumerate(clocks):
        process.now += SOON - 10.0
        planned = process.answered(asked(clocked(turn, clock), hint="one"))
        found.append(b"cache_control" in planned.body)
    return found


def test_two_calls_of_one_second_tell_nothing_of_a_clock():
    seconds = ["10:00:00", "10:00:01", "10:00:01", "10:00:02", "10:00:02", "10:00:03"]

    assert not any(sent_in_turn(*seconds)[1:])


def test_a_conversation_that_holds_still_is_marked_however_fast_it_goes():
    assert all(sent_in_turn(*["noon"] * 6))


def test_how_it_began_within_a_second_counts_where_it_is_told_from_now():
    process = Process(CLAUDE)
    sent, other = (
        process.planned(asked(clocked(0, clock))).evidence.sent for clock in ("noon", "one")
    )
    known = Talk()
    known.note(sent, NOW, tokens=10, turns=0)

    assert known.told(opening(sent.blocks), NOW + SOON) == []
    assert len(known.told(opening(sent.blocks), NOW + 1.0)) == 1
    assert len(known.told(opening(other.blocks), NOW + SOON)) == 1


def test_of_the_latest_calls_alone_it_is_remembered_how_they_were():
    sent = Process(CLAUDE).planned(asked(clocked(0, "noon"))).evidence.sent
    known = Talk()
    for number in range(40):
        known.note(sent, NOW + number, tokens=number, turns=number)
        known.lacked(number)

    assert (known.calls, known.latest, known.tokens, known.turns) == (40, NOW + 39, 39, 39)
    sizes = map(len, (known.points, known.openings, known.moments, known.endings))
    assert set(sizes) == {4}
    assert known.lefts == (38, 39)
