import pytest

from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeScope
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.settings import answer_purges as module
from proxy.store.sql.settings.answer_purges import AnswerPurges

NOW = 1_790_000_000.0


@pytest.fixture
def purges(engine):
    return AnswerPurges(engine)


def purge(name: str = "faq", purged_at: float = NOW, team: str = "team_1") -> AnswerPurge:
    return AnswerPurge(team=team, scope=PurgeScope.FEATURE, name=name, purged_at=purged_at)


def test_purges_are_read_from_a_time_on_newest_first(purges):
    for one in (purge("a"), purge("b", NOW + 1), purge("a", NOW + 2)):
        assert purges.add(one, "key_1") is one

    assert purges.since(0.0) == [purge("a", NOW + 2), purge("b", NOW + 1)]
    assert purges.since(NOW + 2) == [purge("a", NOW + 2)]


def test_purges_that_no_answer_outlives_are_forgotten(purges):
    purges.add(purge("a"), "key_1")
    purges.add(purge("b", NOW + 31 * 86_400), "key_1")

    assert [one.name for one in purges.since(0.0)] == ["b"]


def test_more_purges_than_a_team_may_have_are_one_of_all_its_answers(purges, monkeypatch):
    monkeypatch.setattr(module, "MAX_TEAM_PURGES", 2)
    purges.add(purge("foreign", team="team_2"), "key_2")
    stored = [purges.add(purge(name, NOW + 1), "key_1") for name in "abc"]

    whole = AnswerPurge(team="team_1", scope=PurgeScope.TEAM, purged_at=NOW + 1)
    assert stored[2] == whole
    assert purges.since(NOW) == [whole, purge("foreign", team="team_2")]


def test_a_purge_stands_in_the_audit_log_with_its_key(purges, engine):
    purges.add(purge(), "key_1")
    (entry, *_) = AuditLog(engine).entries(10)

    assert (entry.who, entry.action, entry.subject) == ("key_1", "purge answers", "feature faq")
