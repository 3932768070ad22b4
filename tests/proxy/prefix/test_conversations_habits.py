from proxy.prefix.conversations import MIN_RUN_CONVERSATIONS, ConversationHabits

#: Seconds after which a first call is judged.
OVER = 1_800.0


def record_single_calls(
    habits: ConversationHabits, count: int, start: float = 0.0, gap: float = 100.0
) -> float:
    """Return when the last of so many conversations of one call each is judged."""
    for index in range(count):
        habits.record_first_call(start + index * gap)
    return start + (count - 1) * gap + OVER


def test_conversations_end_at_their_first_call_after_a_long_run_that_is_over():
    habits = ConversationHabits()
    over = record_single_calls(habits, MIN_RUN_CONVERSATIONS)

    assert not habits.end_at_first_call(over - 1.0)
    assert habits.end_at_first_call(over)


def test_a_second_call_ends_the_run_of_single_calls_and_doubles_the_next_one():
    habits = ConversationHabits()
    over = record_single_calls(habits, MIN_RUN_CONVERSATIONS)
    habits.record_second_call(over, 30.0)

    assert not habits.end_at_first_call(over)
    assert not habits.end_at_first_call(
        record_single_calls(habits, 2 * MIN_RUN_CONVERSATIONS - 1, over)
    )
    assert habits.end_at_first_call(
        record_single_calls(habits, 2 * MIN_RUN_CONVERSATIONS, over + 100_000.0)
    )


def test_slow_conversations_are_not_taken_for_single_calls():
    habits = ConversationHabits()
    for index in range(50):
        habits.record_first_call(index * 10.0)
    for index in range(50):
        habits.record_second_call(1_000.0 + index * 10.0, 1_000.0)

    assert not habits.end_at_first_call(10_000.0)


def test_first_calls_that_wait_to_be_judged_are_bounded():
    habits = ConversationHabits()
    for index in range(10_000):
        habits.record_first_call(index * 0.01)

    assert len(habits._young) == 64
