from compaction.facts.fact import FactKind
from compaction.facts.message_worth import message_factors, region_words
from compaction.facts.simple_facts import best_simple_way, simple_facts
from tests.compaction.facts.regions import (
    Said,
    assistant,
    call_and_result,
    read_contents,
    texts,
    user,
)

REPLY = "Order W-4711 waits in Oslo until 2026-05-03."
TALK: list[Said] = [
    user("hm " * 50),
    call_and_result("find", '{"id": "W-1"}', "a", of="Bo"),
    assistant(REPLY),
]


def best(part, max_tokens):
    factors = message_factors(part, [], decays=False)
    return best_simple_way(part, region_words(part), factors, max_tokens, 120)


def test_the_way_that_keeps_the_words_of_most_worth_is_the_best():
    result = best(read_contents(*TALK), 50)

    assert result.way == "keep last"
    assert result.pieces[-1] == (3, REPLY)
    assert result.worth > 0


def test_more_room_is_never_worth_less():
    part = read_contents(*TALK)
    worths = [best(part, max_tokens).worth for max_tokens in (0, 20, 60, 200)]

    assert worths == sorted(worths)
    assert worths[0] == 0


def test_pieces_become_lines_of_who_said_them_and_results_stand_with_their_call():
    part = read_contents(*TALK)
    facts = list(simple_facts(part, [(0, "a\nb"), (2, "W-1"), (3, "So.")]))

    assert [fact.kind for fact in facts] == [FactKind.USER, FactKind.RECORD, FactKind.REPLY]
    assert texts(facts) == ["a ¶ b", "find(of=Bo) → W-1", "So."]


def test_an_argument_beside_a_cropped_result_has_100_characters():
    def line(chars: int) -> str:
        part = read_contents(call_and_result("find", "W-1", of="x" * chars))
        return next(simple_facts(part, [(1, "W-1")])).text

    assert line(100) == f"find(of={'x' * 100}) → W-1"
    assert "x" * 100 not in line(101)
