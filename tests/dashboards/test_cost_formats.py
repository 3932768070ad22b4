import csv
import io
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.cost_formats import csv_text, inert_text

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
TEXTS = st.text(st.sampled_from("=+-@\t\r\n;, \"'\x1b\x00aé")) | st.text()


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("start", STARTS)
def test_a_text_that_would_begin_a_formula_begins_with_an_apostrophe(start: str) -> None:
    ((cell,),) = cells(csv_text(["h"], [[f"{start}cmd|' /C calc'!A0"]]))[1:]

    assert cell == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("start", STARTS[:4])
@pytest.mark.parametrize("before", [" ", "\u00a0", "a;", "a; ", "a\n"])
def test_blanks_and_separators_do_not_hide_a_formula(before: str, start: str) -> None:
    assert "'" in inert_text(f"{before}{start}1")


@given(TEXTS)
def test_no_cell_begins_a_formula_wherever_a_locale_splits_it(text: str) -> None:
    ((cell,),) = cells(csv_text(["h"], [[text]]))[1:] or [[""]]
    parts = [cell]
    for separator in ";\t\r\n":
        parts = [item for part in parts for item in part.split(separator)]

    assert not any(part.lstrip().startswith(("=", "+", "-", "@")) for part in parts)
    assert not cell.startswith(("\t", "\r", "\n"))
    assert not any(c in cell for c in "\x00\x07\x08\x1b\x7f\x9b")


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2)))
def test_any_texts_come_back_from_a_strict_reader_as_they_were_made_inert(
    rows: list[list[str]],
) -> None:
    text = csv_text(["a", "b"], rows)

    assert cells(text) == [["a", "b"], *([inert_text(item) for item in row] for row in rows)]
    assert text.encode().decode() == text


def test_lines_end_as_rfc_4180_says_and_quotes_are_doubled() -> None:
    assert csv_text(["a", "b"], [['say "hi", all', "x\r\ny"]]) == (
        'a,b\r\n"say ""hi"", all","x\r\ny"\r\n'
    )


def test_numbers_are_no_texts_and_what_is_unknown_is_empty() -> None:
    text = csv_text(["n", "d", "e", "t"], [[-5, Decimal("-0.000000001"), None, "-5"]])

    assert text.splitlines()[1] == "-5,-0.000000001,,'-5"


def test_a_harmless_text_stays_as_it_is() -> None:
    assert inert_text("Ünïcode a-b=c, d@e; f") == "Ünïcode a-b=c, d@e; f"
