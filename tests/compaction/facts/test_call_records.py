from compaction.facts.call_records import exchanged
from compaction.facts.fact import Kind
from tests.compaction.facts.regions import asked, called, parted


def fact(*said, say=str):
    return exchanged(parted(*said).exchanges[0], Kind.RECORD, say, "key", 2)


def test_a_call_and_its_result_are_one_line():
    made = fact(called("get", "a\nb", x="Z1"))

    assert made.text == "get(x=Z1) → a ¶ b"
    assert (made.turns, made.messages, made.key, made.replaces) == ((0,), (0, 1), "key", 2)


def test_a_result_that_is_left_out_is_told_from_none():
    assert fact(called("get", "a", x="Z1"), say=lambda _: "").text == "get(x=Z1) → …"
    assert fact(called("get", "", x="Z1")).text == "get(x=Z1)"


def test_a_result_of_an_unknown_call_stands_alone():
    assert fact(asked("", "", "a")).text == "result → a"


def test_thoughts_are_cut_sooner():
    assert len(fact(called("think", "", thought="so " * 200)).text) < 200


def test_secrets_in_arguments_are_taken_out():
    assert "AKIA" not in fact(called("get", "a", key="AKIAIOSFODNN7EXAMPLE")).text
