"""Purges: they cover what was asked for before them, and nothing of other teams."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.answer_cache import answer_purges
from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeLog, PurgeScope
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from tests.proxy.fast_path.answer_cache.test_cached_answer import ANSWER

SCOPES = st.sampled_from(
    [
        (PurgeScope.TEAM, ""),
        (PurgeScope.FEATURE, "faq"),
        (PurgeScope.FEATURE, "other"),
        (PurgeScope.TAG, "kb"),
        (PurgeScope.KEY, "k"),
    ]
)
PURGES = st.lists(
    st.builds(
        lambda team, scope, at: AnswerPurge(
            team=team, scope=scope[0], name=scope[1], purged_at=float(at)
        ),
        st.sampled_from(["team_1", "team_2"]),
        SCOPES,
        st.integers(0, 10),
    ),
    max_size=8,
)


def answer(started: float = 5.0) -> CachedAnswer:
    return msgspec.structs.replace(ANSWER, started=started)


@given(PURGES, st.integers(0, 10))
def test_a_log_covers_an_answer_that_one_of_its_purges_covers(purges, started):
    log = PurgeLog()
    for purge in purges:
        log.note(purge)
    asked = answer(float(started))

    assert log.covers(asked) is any(purge.covers(asked) for purge in purges)


@pytest.mark.parametrize(("purged_at", "is_covered"), [(4.9, False), (5.0, True), (9.0, True)])
def test_a_purge_covers_what_was_asked_for_up_to_its_time(purged_at, is_covered):
    purge = AnswerPurge(team="team_1", scope=PurgeScope.TAG, name="kb", purged_at=purged_at)

    assert purge.covers(answer()) is is_covered


def test_a_purge_that_is_known_is_no_news():
    log = PurgeLog()
    purge = AnswerPurge(team="t", scope=PurgeScope.TEAM, purged_at=5.0)

    assert [log.note(purge), log.note(purge)] == [True, False]
    assert log.note(msgspec.structs.replace(purge, purged_at=6.0))
    assert len(log) == 1


def test_purges_of_one_team_beyond_the_bound_leave_those_of_others_as_they_are(monkeypatch):
    monkeypatch.setattr(answer_purges, "_MAX_PURGES", 3)
    log = PurgeLog()
    log.note(AnswerPurge(team="team_1", scope=PurgeScope.TAG, name="other", purged_at=9.0))
    for number in range(10):
        log.note(AnswerPurge(team="team_2", scope=PurgeScope.KEY, name=str(number), purged_at=9.0))

    assert len(log) == 3
    assert not log.covers(answer())
    assert log.covers(msgspec.structs.replace(answer(), team="team_2"))


def test_purges_beyond_the_bound_become_purges_of_their_teams(monkeypatch):
    monkeypatch.setattr(answer_purges, "_MAX_PURGES", 3)
    log = PurgeLog()
    for number in range(10):
        log.note(AnswerPurge(team="team_1", scope=PurgeScope.KEY, name=str(number), purged_at=5.0))

    assert len(log) == 3
    assert log.covers(answer(5.0))
    assert not log.covers(answer(5.1))
