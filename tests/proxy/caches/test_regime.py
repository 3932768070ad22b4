"""What planning must know of a route's cache."""

from proxy.caches.regime import Regime


def test_a_cache_that_takes_marks_says_so():
    assert Regime(marks=4).takes_marks
    assert not Regime().takes_marks


def test_where_nothing_is_known_reading_saves_nothing():
    assert Regime().read == 1
    assert Regime().writes == {}
