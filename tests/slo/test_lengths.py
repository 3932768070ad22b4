from slo.hold import Output
from slo.lengths import Lengths


def test_of_an_unknown_kind_the_limit_is_likely():
    assert Lengths().output("chat", 4096) == Output(typical=4096, likely=4096, worst=4096)


def test_a_kind_of_which_little_is_learned_is_unknown():
    lengths = Lengths()
    lengths.add("chat", 9)

    assert not lengths.knows("chat")
    assert lengths.output("chat", 4096) == Lengths().output("chat", 4096)


def test_twenty_answers_say_how_long_the_next_is_likely():
    lengths = Lengths()
    for _ in range(20):
        lengths.add("chat", 100)

    found = lengths.output("chat", 4096)

    assert 98 <= found.typical <= 103
    assert 98 <= found.likely <= 103
    assert found.worst == 4096


def test_no_answer_is_expected_to_pass_its_limit():
    lengths = Lengths()
    for _ in range(30):
        lengths.add("chat", 1000)

    assert lengths.output("chat", 64) == Output(typical=64, likely=64, worst=64)


def test_what_was_learned_long_ago_weighs_less_and_less():
    lengths = Lengths()
    for length in (10, 1000):
        for _ in range(20_000):
            lengths.add("chat", length)

    assert lengths.output("chat", 4096).typical > 900


def test_the_kind_used_least_recently_is_forgotten():
    lengths = Lengths(most=2)
    for kind in ("a", "b", "a", "c"):
        for _ in range(20):
            lengths.add(kind, 5)

    assert [lengths.output(kind, 100).likely < 100 for kind in "abc"] == [True, False, True]


def test_what_nine_of_ten_stay_below_is_told_once_enough_is_learned():
    lengths = Lengths()
    for length in range(1, 20):
        lengths.add("kind", length)
    assert lengths.quantile("kind", 0.9) is None
    assert not lengths.knows("kind")
    lengths.add("kind", 20)

    assert lengths.knows("kind")
    assert lengths.quantile("kind", 0.9) in {17, 18, 19}
    assert lengths.quantile("other", 0.9) is None


def test_a_kind_is_known_from_its_twentieth_answer_on():
    lengths = Lengths()
    for number in range(20):
        assert lengths.known_output("chat", 4096) is None
        assert not lengths.knows("chat")
        lengths.add("chat", 10 * number)

    assert lengths.knows("chat")
    assert lengths.known_output("chat", 4096) == lengths.output("chat", 4096)
