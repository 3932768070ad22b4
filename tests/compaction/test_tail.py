import orjson

from compaction.reading.readings import Readings
from compaction.reading.size import estimate
from compaction.tail import Tail, grown
from compaction.talk import Talk, talk
from tests.fakes.talks import asked, assistant, user

_PAGE = "\n".join(f"{n} one line of many" for n in range(40))


def heard(raws: list[bytes]) -> Talk:
    return talk(Readings().messages(raws, estimate))


def test_messages_go_as_they_came_where_nothing_can_be_told_shorter():
    said = heard([user("a"), assistant("b"), user("c")])

    tail = grown(said, Tail(start=0, end=0), 3, "", estimate)

    assert tail.raws(said) == [each.raw for each in said.messages]
    assert tail.tokens == said.upto[3]
    assert tail.weight(said, 1) == said.weight(1, 3)


def test_a_tail_that_grows_in_steps_is_what_it_is_at_once():
    said = heard([user("a"), *asked("f", {}, _PAGE), *asked("f", {}, _PAGE), user("c")])

    steps = Tail(start=0, end=0)
    for end in (1, 3, 5, 6):
        steps = grown(said, steps, end, "", estimate)

    assert steps == grown(said, Tail(start=0, end=0), 6, "", estimate)


def test_what_was_said_shorter_weighs_less():
    said = heard([user("a"), *asked("f", {}, _PAGE), *asked("f", {}, _PAGE)])

    tail = grown(said, Tail(start=0, end=0), 5, "", estimate)

    assert list(tail.said) == [4]
    assert "same as" in orjson.loads(tail.said[4].raw)["content"]
    assert tail.tokens < said.upto[5]
    assert tail.weight(said, 4) == tail.said[4].tokens
    assert tail.tokens == said.weight(0, 4) + tail.said[4].tokens


def test_before_the_first_fold_nothing_is_recalled():
    said = heard([user("Look at ORD-7788."), assistant("It is blue."), user("ORD-7788 again?")])

    folded = Tail(start=2, end=2)

    assert not grown(said, folded, 3, "", estimate).said
    assert list(grown(said, folded, 3, "a record", estimate).said) == [2]
    assert not grown(said, folded, 3, "a record of ORD-7788", estimate).said


def test_results_are_left_alone_while_no_cache_would_keep_what_is_sent():
    said = heard([user("a"), *asked("f", {}, _PAGE), *asked("f", {}, _PAGE), user("c")])
    whole = said.upto[6]

    assert not grown(said, Tail(start=0, end=0), 6, "", estimate, above=whole).said
    assert grown(said, Tail(start=0, end=0), 6, "", estimate, above=whole // 3).said
