from proxy.prefix.breakpoints.lone import MIN_RUN, SingleCallRun

#: Seconds after which a first call is judged.
OVER = 1_800.0


def after(run: SingleCallRun, count: int, start: float = 0.0, gap: float = 100.0) -> float:
    """When the last of so many conversations of one call each is judged."""
    for at in range(count):
        run.record_first_call(start + at * gap)
    return start + (count - 1) * gap + OVER


def test_a_long_run_of_conversations_that_ended_at_once_is_believed_once_it_is_over():
    run = SingleCallRun()
    over = after(run, MIN_RUN)

    assert not run.is_certain(over - 1.0)
    assert run.is_certain(over)


def test_a_conversation_that_went_on_ends_the_run_and_the_next_has_to_be_twice_as_long():
    run = SingleCallRun()
    over = after(run, MIN_RUN)
    run.record_second_call(over, 30.0)

    assert not run.is_certain(over)
    assert not run.is_certain(after(run, 2 * MIN_RUN - 1, over))
    assert run.is_certain(after(run, 2 * MIN_RUN, over + 100_000.0))


def test_conversations_that_go_on_slowly_are_not_taken_for_lone_ones():
    run = SingleCallRun()
    for at in range(50):
        run.record_first_call(at * 10.0)
    for at in range(50):
        run.record_second_call(1_000.0 + at * 10.0, 1_000.0)

    assert not run.is_certain(10_000.0)


def test_what_is_remembered_is_bounded():
    run = SingleCallRun()
    for at in range(10_000):
        run.record_first_call(at * 0.01)

    assert len(run._young) == 64
