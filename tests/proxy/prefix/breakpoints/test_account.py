"""The places that are marked."""

from proxy.prefix.breakpoints.account import MarkAccount, PlaceValues, PromptPlace

MAX_PLACES = 4

#: Surcharges of the places: tools, stable slot, semi-stable slot, conversation.
FEES = (10.0, 10.0, 0.0, 5.0)
LIFE_S = 300.0
NOTHING = (0.0,) * MAX_PLACES


def write(account: MarkAccount, conversation: bytes, before: int, now: float, fee: float) -> None:
    """Count a call that writes its conversation and reads nothing."""
    values = PlaceValues(NOTHING, (0.0, 0.0, 0.0, fee))
    account.record_values(values, conversation, before, now, LIFE_S)


def test_all_places_are_marked_before_anything_is_known():
    assert MarkAccount().marked_places(FEES, is_first_call=True) == MAX_PLACES


def test_a_place_that_lost_more_than_its_surcharge_is_left_unmarked():
    account = MarkAccount()
    account.places[PromptPlace.FIRST_CALL] = -6.1

    assert account.marked_places(FEES, is_first_call=True) == PromptPlace.FIRST_CALL
    assert account.marked_places(FEES, is_first_call=False) == MAX_PLACES


def test_a_place_is_marked_for_what_stands_behind_it():
    account = MarkAccount()
    account.places[PromptPlace.STABLE] = -20.0
    account.places[PromptPlace.LATER_CALL] = 100.0

    assert account.marked_places(FEES, is_first_call=False) == MAX_PLACES
    assert account.marked_places(FEES, is_first_call=True) == PromptPlace.STABLE


def test_a_place_at_which_nothing_is_written_is_marked_whatever_it_lost():
    account = MarkAccount()
    account.places[PromptPlace.STABLE] = -1_000.0

    assert account.marked_places((0.0, 0.0, 0.0, 5.0), is_first_call=False) == MAX_PLACES


def test_account_marks_nothing_where_every_place_lost():
    account = MarkAccount()
    account.places = [-1_000.0] * len(PromptPlace)

    assert account.marked_places(FEES, is_first_call=True) == 0


def test_a_first_call_earned_the_tokens_that_the_second_reads():
    account = MarkAccount()
    write(account, b"one", 0, 0.0, 5.0)
    account.record_values(
        PlaceValues((0.0, 0.0, 0.0, 18.0), (0.0, 0.0, 0.0, 1.0)), b"one", 1, 10.0, LIFE_S
    )
    account.record_values(
        PlaceValues((0.0, 0.0, 0.0, 20.0), (0.0, 0.0, 0.0, 1.0)), b"one", 2, 20.0, LIFE_S
    )

    assert account.places[PromptPlace.FIRST_CALL] > 10.0
    assert account.places[PromptPlace.LATER_CALL] > 18.0


def test_a_conversation_counts_as_lost_only_once_it_can_not_be_read_any_more():
    account = MarkAccount()
    write(account, b"one", 0, 0.0, 5.0)
    write(account, b"two", 0, LIFE_S - 1.0, 5.0)
    assert account.places[PromptPlace.FIRST_CALL] == 0.0

    write(account, b"two", 0, LIFE_S + 1.0, 0.0)
    assert account.places[PromptPlace.FIRST_CALL] == -10.0


def test_tools_count_as_lost_once_they_can_not_be_read_or_others_were_written():
    account = MarkAccount()
    values = PlaceValues(NOTHING, (5.0, 0.0, 0.0, 0.0))
    account.record_values(values, b"one", 0, 0.0, LIFE_S)
    assert account.places[PromptPlace.TOOLS] == 0.0

    account.record_values(values, b"two", 0, 1.0, LIFE_S)
    assert account.places[PromptPlace.TOOLS] == -5.0

    account.count_expired_writes(LIFE_S + 2.0)
    assert account.places[PromptPlace.TOOLS] == -10.0


def test_conversations_that_may_still_be_read_are_bounded():
    account = MarkAccount()
    for index in range(1_000):
        write(account, str(index).encode(), 0, 0.0, 1.0)

    assert len(account._unread) == 32
    assert account.places[PromptPlace.FIRST_CALL] < 0.0
