"""The places that are marked."""

import pytest

from proxy.prefix.breakpoints.account import MAX_PLACES, MarkAccount, PlaceValues, PromptPlace

#: Surcharges of the places: tools, stable slot, semi-stable slot, conversation.
FEES = (10.0, 10.0, 0.0, 5.0)
LIFE_S = 300.0
NOTHING = (0.0,) * MAX_PLACES


def write(account: MarkAccount, conversation: bytes, before: int, now: float, fee: float) -> None:
    """Count a call that writes its conversation and reads nothing."""
    values = PlaceValues(NOTHING, (0.0, 0.0, 0.0, fee))
    account.record_values(values, conversation, before, now, LIFE_S)


def test_all_places_are_marked_before_anything_is_known():
    assert MarkAccount().marked_places(FEES, is_first_call=True) == MAX_PLACES == 4


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


@pytest.mark.parametrize(("balance", "places"), [(-5.9, MAX_PLACES), (-6.1, 3)])
def test_a_place_may_lose_one_surcharge_and_a_fifth(balance: float, places: int):
    account = MarkAccount()
    account.places[PromptPlace.FIRST_CALL] = balance

    assert account.marked_places(FEES, is_first_call=True) == places


@pytest.mark.parametrize(("calls", "places"), [(25, 3), (26, MAX_PLACES)])
def test_a_place_that_lost_twenty_surcharges_is_marked_again_after_26_calls(
    calls: int, places: int
):
    """A balance counts 92 % at the next call: 100 x 0.92^26 is less than 1.2 surcharges of ten."""
    account = MarkAccount()
    account.places[PromptPlace.FIRST_CALL] = -100.0
    for _ in range(calls):
        account.record_values(PlaceValues(NOTHING, NOTHING), b"one", 1, 0.0, LIFE_S)

    assert account.marked_places((0.0, 0.0, 0.0, 10.0), is_first_call=True) == places


@pytest.mark.parametrize(("calls", "is_above"), [(346, True), (347, False)])
def test_sizes_of_earlier_calls_count_half_after_347_calls(calls: int, is_above: bool):  # noqa: FBT001
    account = MarkAccount()
    for _ in range(10_000):
        account.record_size(100, 200)
    for _ in range(calls):
        account.record_size(100, 100)

    assert (account.size_ratio > 1.5) is is_above


@pytest.mark.parametrize(("earned", "is_bought"), [(119.0, False), (121.0, True)])
def test_an_hour_is_bought_once_it_would_have_earned_a_fifth_more_than_its_fee(
    earned: float,
    is_bought: bool,  # noqa: FBT001 - a parameter
):
    account = MarkAccount()
    account.record_long_life(earned, fee=100.0)

    assert account.is_long_lived is is_bought


@pytest.mark.parametrize(
    ("failures", "pause_s"), [(7, 0.0), (8, 600.0), (9, 1_200.0), (15, 76_800.0), (16, 86_400.0)]
)
def test_reads_are_tried_ten_minutes_after_eight_failed_and_a_day_later_at_most(
    failures: int, pause_s: float
):
    account, now = MarkAccount(), 0.0
    for _ in range(failures):
        now = account.retry_at
        account.record_read(now, came=False)

    assert account.retry_at - now == pause_s


def test_an_account_counts_its_bytes_and_those_of_unread_writes():
    account = MarkAccount()
    assert account.size_bytes == 1_100
    write(account, b"one", 0, 0.0, 5.0)

    assert account.size_bytes == 1_440
