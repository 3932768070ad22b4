import msgspec
import pytest

from compaction.facts.region_contents import indicates_change, read_region
from compaction.reading.message import Voice
from compaction.reading.text_analysis_cache import TextAnalysisCache
from tests.compaction.facts.regions import assistant, call_and_result, read_contents, region, user


@pytest.mark.parametrize("result", ["Successfully paid", "It has been sent.", "They were removed"])
def test_a_result_tells_of_a_change_where_it_begins(result):
    assert indicates_change(result)


@pytest.mark.parametrize("result", ["", "It was late", "x" * 400 + " successfully paid"])
def test_other_results_do_not(result):
    assert not indicates_change(result)


def test_results_find_their_calls_and_messages_their_turns():
    call, one = call_and_result("a", "1", "x")
    other, two = call_and_result("b", "2", "y")
    both = {**call, "tool_calls": [*call["tool_calls"], *other["tool_calls"]]}

    read = read_contents(user("go"), both, two, one, user("on"))

    assert [
        (exchange.called.name, exchange.result, exchange.messages) for exchange in read.exchanges
    ] == [
        ("b", "2", (1, 2)),
        ("a", "1", (1, 3)),
    ]
    assert read.turns == (1, 1, 1, 1, 2)
    assert read.turn_of(4) == 2


def test_a_call_without_its_result_and_a_result_without_its_call_stand_alone():
    whole = region(user("go"), call_and_result("a", "1"), call_and_result("b", "2", "c2"))

    read = read_region(msgspec.structs.replace(whole, start=2, end=4))

    assert [(exchange.called.name, exchange.result) for exchange in read.exchanges] == [
        ("", "1"),
        ("b", ""),
    ]


def test_kept_messages_are_not_read_and_all_others_keep_their_words():
    key = "AKIAIOSFODNN7EXAMPLE"
    read = read_contents(
        user(key), assistant(key), assistant("x"), call_and_result("a", key), kept=frozenset([2])
    )

    assert [message.text for _, message in read.messages_of(Voice.USER)] == [key]
    assert [message.text for _, message in read.messages_of(Voice.ASSISTANT)] == [key, ""]
    assert read.exchanges[0].result == key


def test_a_change_is_told_by_the_first_300_characters_of_a_result():
    assert indicates_change("y" * 273 + " Your table has been booked")
    assert not indicates_change("y" * 274 + " Your table has been booked")


def test_a_call_that_comes_again_is_analyzed_once_for_its_scope():
    call = call_and_result("bash", "error: no such file src/a.py", command="cat src/a.py")
    part, cache = region(user("go"), call), TextAnalysisCache()

    def outcome(scope: bytes):
        return read_region(part, cache.analyzer_for(scope)).exchanges[0].outcome

    assert outcome(b"one team") is outcome(b"one team")
    assert outcome(b"one team") is not outcome(b"another team")


def test_calls_that_would_change_files_are_known_by_their_ends():
    view = call_and_result("bash", "x = 1", "c1", command="cat src/a.py")
    edit = call_and_result("bash", "done", "c2", command="sed -i s/1/2/ src/a.py")

    assert list(read_contents(user("go"), view, edit).changing_ends) == [4]
