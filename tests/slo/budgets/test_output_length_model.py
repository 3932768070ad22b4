import pytest

from slo.budgets.output_length_model import OutputLengthModel
from slo.budgets.reservation_sizing import OutputBounds


def test_of_an_unknown_kind_the_limit_is_likely():
    assert OutputLengthModel().output_bounds("chat", 4096) == OutputBounds(
        typical=4096, likely=4096, worst=4096
    )


def test_a_kind_of_which_little_is_learned_is_unknown():
    lengths = OutputLengthModel()
    lengths.add("chat", 9)

    assert not lengths.is_learned("chat")
    assert lengths.output_bounds("chat", 4096) == OutputLengthModel().output_bounds("chat", 4096)


def test_twenty_answers_say_how_long_the_next_is_likely():
    lengths = OutputLengthModel()
    for _ in range(20):
        lengths.add("chat", 100)

    bounds = lengths.output_bounds("chat", 4096)

    assert 98 <= bounds.typical <= 103
    assert 98 <= bounds.likely <= 103
    assert bounds.worst == 4096


def test_no_answer_is_expected_to_pass_its_limit():
    lengths = OutputLengthModel()
    for _ in range(30):
        lengths.add("chat", 1000)

    assert lengths.output_bounds("chat", 64) == OutputBounds(typical=64, likely=64, worst=64)


def test_old_lengths_weigh_less_and_less():
    lengths = OutputLengthModel()
    for length in (10, 1000):
        for _ in range(20_000):
            lengths.add("chat", length)

    assert lengths.output_bounds("chat", 4096).typical > 900


def test_the_kind_used_least_recently_is_forgotten():
    assert OutputLengthModel()._most == 2_048
    lengths = OutputLengthModel(max_kinds=2)
    for kind in ("a", "b", "a", "c"):
        for _ in range(20):
            lengths.add(kind, 5)

    assert [lengths.output_bounds(kind, 100).likely < 100 for kind in "abc"] == [True, False, True]


def test_the_length_that_nine_of_ten_stay_below_is_known_once_enough_is_learned():
    lengths = OutputLengthModel()
    for length in range(1, 20):
        lengths.add("kind", length)
    assert lengths.quantile("kind", 0.9) is None
    assert not lengths.is_learned("kind")
    lengths.add("kind", 20)

    assert lengths.is_learned("kind")
    assert lengths.quantile("kind", 0.9) in {17, 18, 19}
    assert lengths.quantile("other", 0.9) is None


def test_a_kind_is_known_from_its_twentieth_answer_on():
    lengths = OutputLengthModel()
    for number in range(20):
        assert lengths.known_output_bounds("chat", 4096) is None
        assert not lengths.is_learned("chat")
        lengths.add("chat", 10 * number)

    assert lengths.is_learned("chat")
    assert lengths.known_output_bounds("chat", 4096) == lengths.output_bounds("chat", 4096)


def test_lengths_count_half_after_4096_of_them():
    lengths = OutputLengthModel()
    for length in [10] * 4_096 + [1_000] * 2_000:
        lengths.add("chat", length)
    assert lengths.quantile("chat", 0.5) == pytest.approx(10, rel=0.05)

    for _ in range(95):
        lengths.add("chat", 1_000)

    assert lengths.quantile("chat", 0.5) == pytest.approx(1_000, rel=0.05)


def test_bounds_of_a_kind_that_is_known_well_are_worked_out_every_16_lengths():
    lengths = OutputLengthModel()
    for _ in range(64):
        lengths.add("chat", 10)
    assert lengths.output_bounds("chat", 4_096).likely < 12
    for _ in range(15):
        lengths.add("chat", 1_000)
    assert lengths.output_bounds("chat", 4_096).likely < 12

    lengths.add("chat", 1_000)

    assert lengths.output_bounds("chat", 4_096).likely > 900
