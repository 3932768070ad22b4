import pytest

from slo.openslo.shapes import InvalidOpenSlo, MeasuredSource, convert_document, single_line


def test_what_has_the_shape_is_taken() -> None:
    assert convert_document({"sli": "ttft", "le": 0.5}, MeasuredSource).le == 0.5


def test_what_has_not_is_told_where() -> None:
    with pytest.raises(InvalidOpenSlo, match=r"Invalid enum value 'speed' - at `\$\.sli`"):
        convert_document({"sli": "speed"}, MeasuredSource)


def test_a_line_has_no_ends_and_is_bounded() -> None:
    assert single_line("a\nb\u202ec") == "a b c"
    assert len(single_line("x" * 1_000)) == 200
