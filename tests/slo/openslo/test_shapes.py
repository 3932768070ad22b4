import pytest

from slo.openslo.shapes import Measured, Unsound, converted, line


def test_what_has_the_shape_is_taken() -> None:
    assert converted({"sli": "ttft", "le": 0.5}, Measured).le == 0.5


def test_what_has_not_is_told_where() -> None:
    with pytest.raises(Unsound, match=r"Invalid enum value 'speed' - at `\$\.sli`"):
        converted({"sli": "speed"}, Measured)


def test_a_line_has_no_ends_and_is_bounded() -> None:
    assert line("a\nb\u202ec") == "a b c"
    assert len(line("x" * 1_000)) == 200
