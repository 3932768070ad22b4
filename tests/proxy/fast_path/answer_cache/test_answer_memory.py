"""The answers of a process: bounded, and each team's its own."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from tests.proxy.fast_path.answer_cache.test_cached_answer import ANSWER

MAX_BYTES = 40_000


def answer(key: str, team: str = "team_1", size: int = 1_000) -> CachedAnswer:
    return msgspec.structs.replace(ANSWER, key=key, team=team, body=b"x" * size)


def test_an_answer_is_its_teams_alone():
    memory = AnswerMemory(MAX_BYTES)
    memory.put(answer("k"))

    assert memory.get("team_1", "k") == answer("k")
    assert memory.get("team_2", "k") is None


def test_a_newer_answer_replaces_the_older():
    memory = AnswerMemory(MAX_BYTES)
    memory.put(answer("k", size=3_000))
    memory.put(answer("k", size=1_000))

    assert (len(memory), memory.size_bytes) == (1, answer("k").size_bytes)


def test_the_answer_used_longest_ago_goes_first():
    memory = AnswerMemory(MAX_BYTES)
    for number in range(20):
        memory.put(answer(str(number)))
    memory.get("team_1", "0")
    memory.put(answer("new"))

    assert memory.get("team_1", "0") is not None
    assert memory.get("team_1", "1") is None


def test_a_team_that_takes_most_gives_way_to_others():
    memory = AnswerMemory(MAX_BYTES)
    memory.put(answer("small", "team_2"))
    for number in range(100):
        memory.put(answer(str(number)))

    assert memory.get("team_2", "small") is not None


def test_an_answer_that_would_fill_the_memory_is_not_kept():
    memory = AnswerMemory(MAX_BYTES)

    assert not memory.put(answer("k", size=MAX_BYTES // 8))
    assert len(memory) == memory.size_bytes == 0


def test_the_answers_of_one_team_are_listed_the_longest_unused_first():
    memory = AnswerMemory(MAX_BYTES)
    for team in ("team_1", "team_2"):
        for key in ("a", "b"):
            memory.put(answer(key, team))
    memory.get("team_1", "a")

    assert [one.key for one in memory.answers("team_1")] == ["b", "a"]
    assert memory.answers("team_3") == []
    memory.drop("team_1", "a")
    memory.drop("team_1", "b")
    assert memory.answers("team_1") == []
    assert memory.size_bytes == 2 * answer("a").size_bytes


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "get"]),
        st.sampled_from(["t1", "t2", "t3"]),
        st.sampled_from("abcdefghijkl"),
        st.integers(0, 6_000),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_memory_is_bounded_and_counts_what_it_holds(steps):
    memory = AnswerMemory(MAX_BYTES)
    for step, team, key, size in steps:
        if step == "put":
            memory.put(answer(key, team, size))
        elif step == "drop":
            memory.drop(team, key)
        else:
            memory.get(team, key)
        held = [
            one
            for name in ("t1", "t2", "t3")
            for letter in "abcdefghijkl"
            if (one := memory.get(name, letter)) is not None
        ]
        assert memory.size_bytes == sum(one.size_bytes for one in held) <= MAX_BYTES
        assert len(memory) == len(held)
