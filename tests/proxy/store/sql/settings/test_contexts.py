from hashlib import sha256

import pytest

from proxy.store.sql.settings import contexts as module
from proxy.store.sql.settings.contexts import Contexts

NOW = 1_790_000_000.0


@pytest.fixture
def contexts(engine):
    return Contexts(engine)


def test_text_is_stored_as_versions_that_never_change(contexts):
    first = contexts.put("team_1", "handbook", "Be kind.", 3, NOW)
    second = contexts.put("team_1", "handbook", "Be kinder. Ä", 4, NOW + 1)

    assert (first.version, second.version) == (1, 2)
    assert (second.bytes, second.tokens, second.made) == (13, 4, NOW + 1)
    assert second.digest == sha256("Be kinder. Ä".encode()).hexdigest()
    assert contexts.texts("team_1", [("handbook", 1), ("handbook", 2)]) == {
        ("handbook", 1): "Be kind.",
        ("handbook", 2): "Be kinder. Ä",
    }


def test_same_text_again_is_the_same_version(contexts):
    first = contexts.put("team_1", "handbook", "Be kind.", 3, NOW)

    assert contexts.put("team_1", "handbook", "Be kind.", 3, NOW + 60) == first


def test_text_that_was_replaced_meanwhile_is_a_new_version(contexts):
    for text in ("a", "b", "a"):
        last = contexts.put("team_1", "handbook", text, 1, NOW)

    assert last.version == 3


def test_team_neither_reads_nor_lists_nor_removes_other_teams_texts(contexts):
    contexts.put("team_1", "handbook", "ours", 1, NOW)

    assert contexts.texts("team_2", [("handbook", 1)]) == {}
    assert contexts.versions("team_2") == []
    assert contexts.remove("team_2", "handbook") == 0
    assert contexts.put("team_2", "handbook", "theirs", 1, NOW).version == 1
    assert contexts.texts("team_1", [("handbook", 1)]) == {("handbook", 1): "ours"}


def test_versions_are_listed_by_name_and_the_newest_first(contexts):
    for name, text in (("b", "1"), ("a", "1"), ("a", "2")):
        contexts.put("team_1", name, text, 1, NOW)

    listed = [(one.name, one.version) for one in contexts.versions("team_1")]

    assert listed == [("a", 2), ("a", 1), ("b", 1)]


def test_one_version_or_all_are_removed(contexts):
    for text in ("1", "2", "3"):
        contexts.put("team_1", "a", text, 1, NOW)

    assert contexts.remove("team_1", "a", 2) == 1
    assert list(contexts.texts("team_1", [("a", 1), ("a", 2), ("a", 3)])) == [("a", 1), ("a", 3)]
    assert contexts.remove("team_1", "a") == 2
    assert contexts.versions("team_1") == []


def test_team_keeps_a_thousand_versions_and_64_mib(contexts):
    assert (module.MAX_VERSIONS, module.MAX_TEAM_BYTES) == (1_000, 67_108_864)
    for number in range(1_000):
        contexts.put("team_1", "a", str(number), 1, NOW)

    with pytest.raises(ValueError, match="keeps 1,000 versions of 2,890 bytes"):
        contexts.put("team_1", "b", "one more", 1, NOW)
    assert contexts.put("team_1", "a", "999", 1, NOW).version == 1_000


def test_text_that_does_not_fit_beside_the_others_is_refused(contexts):
    for name in ("a", "b", "c"):
        contexts.put("team_1", name, (16 * 1024 * 1024) * name, 1, NOW)
    contexts.put("team_1", "d", (16 * 1024 * 1024 - 1) * "d", 1, NOW)

    contexts.put("team_1", "e", "e", 1, NOW)
    with pytest.raises(ValueError, match="may keep"):
        contexts.put("team_1", "f", "f", 1, NOW)
