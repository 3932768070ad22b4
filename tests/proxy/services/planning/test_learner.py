"""Lessons wait for a moment, are learned in their order, and harm neither calls nor each other."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from proxy.services.planning.learner import BackgroundLearner


@pytest.fixture
def school():
    learner_made = BackgroundLearner(waiting=3)
    yield learner_made
    learner_made.close()


def wait_until_idle(school: BackgroundLearner) -> None:
    over = threading.Event()
    school.submit(over.set)
    assert over.wait(10)


def busy(school: BackgroundLearner) -> threading.Event:
    """Keep its thread at a lesson until this is set."""
    begun, over = threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        over.wait(10)

    school.submit(long)
    assert begun.wait(10)
    return over


def test_lessons_are_learned_in_their_order_in_one_thread_that_is_not_ours(school):
    learned = []

    for number in range(2):
        school.submit(lambda number=number: learned.append((number, threading.get_ident())))
    wait_until_idle(school)

    assert [number for number, _ in learned] == [0, 1]
    assert len({thread for _, thread in learned} - {threading.get_ident()}) == 1


def test_learner_begins_again_after_a_rest(school):
    wait_until_idle(school)
    wait_until_idle(school)


def test_a_lesson_that_fails_is_logged_and_harms_no_other(school, caplog):
    school.submit(lambda: 1 // 0)
    wait_until_idle(school)

    assert [record.message for record in caplog.records] == ["A call could not be learned from"]


def test_lessons_that_wait_are_bounded(school):
    over = busy(school)
    learned: list[int] = []
    for number in range(5):
        school.submit(partial(learned.append, number))
    over.set()
    school._thread.submit(int).result(10)

    assert learned == [0, 1, 2]


def test_1024_lessons_wait_by_default_and_are_gathered_for_a_hundredth_of_a_second():
    class Gathering(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return False

    waits: list[float | None] = []
    learned: list[int] = []
    school = BackgroundLearner()
    school._over = Gathering()
    over = busy(school)
    for number in range(1_030):
        school.submit(partial(learned.append, number))
    over.set()
    school._thread.submit(int).result(10)
    school.close()

    assert len(learned) == 1_024
    assert set(waits) == {0.01}


def test_closing_drops_what_waits_and_takes_no_more(school):
    over = busy(school)
    learned: list[str] = []
    school.submit(lambda: learned.append("waited"))
    school.close()
    over.set()
    school.submit(lambda: learned.append("late"))
    school._thread.shutdown(wait=True)

    assert learned == []


def test_where_no_thread_is_to_be_had_it_says_so_and_begins_with_the_next_lesson(school, caplog):
    class Short(ThreadPoolExecutor):
        fails = True

        def submit(self, *args, **kwargs):
            if self.fails:
                raise RuntimeError("can't start new thread")
            return super().submit(*args, **kwargs)

    learned = []
    school._thread = Short(max_workers=1)
    school.submit(lambda: learned.append(1))
    school._thread.fails = False
    wait_until_idle(school)

    assert learned == [1]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
