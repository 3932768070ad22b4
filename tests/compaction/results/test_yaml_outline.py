import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import MAX_DEPTH, Number
from compaction.results.yaml_outline import parse_outline

MAIL = """\
- attachments: []
  body: 'Hello,

    it''s for you: all of
    it.'
  id_: '12'
  read: false
  size: 1.50
  sender: null
  shared_with:
    a.b@c.com: rw
  participants:
  - x@y.com
  - - inner
    - -3
  title: One that goes on
    in the next line
  nothing:
- "said \\"so\\" and \\
    \\ went"
- last
"""


def test_an_outline_is_read_as_it_was_meant():
    assert parse_outline(MAIL) == [
        {
            "attachments": [],
            "body": "Hello,\nit's for you: all of it.",
            "id_": "12",
            "read": False,
            "size": Number("1.50"),
            "sender": None,
            "shared_with": {"a.b@c.com": "rw"},
            "participants": ["x@y.com", ["inner", Number("-3")]],
            "title": "One that goes on in the next line",
            "nothing": None,
        },
        'said "so" and  went',
        "last",
    ]


def test_a_number_keeps_its_spelling_and_a_string_of_digits_stays_one():
    outline = parse_outline("a: 1.10\nb: '1.10'\nc: 007\n")

    assert isinstance(outline, dict)
    assert [type(scalar) for scalar in outline.values()] == [Number, str, str]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Words.\nMore words.\nAnd more.",
        "a: 1\nb: 2",
        "a: 1\na: 2\nb: 3",
        "a: 1\nno name here\nb: 2",
        "a: |\n  text\nb: 1",
        "a: [1, 2]\nb: 1\nc: 2",
        "a: x: y\nb: 1\nc: 2",
        "a: 'open\nb: 1\nc: 2",
        "a: 'it's'\nb: 1\nc: 2",
        'a: "\\q"\nb: 1\nc: 2',
        "a:\n    b: 1\n  c: 2\nd: 3",
        "a:\n\n\nb: 1",
        "a: 1\nb: 2\n  \n \nc: 2",
        "a: b\n" * 60_000,
        "- " * (MAX_DEPTH + 5) + "a\n- b\n- c",
    ],
)
def test_unusual_yaml_is_left_alone(text):
    with pytest.raises(CannotCompactError):
        parse_outline(text)


@given(st.text(st.sampled_from("ab:- '\"\\\n1[]#~"), max_size=60))
def test_any_text_is_read_or_left_alone(text):
    try:
        outline = parse_outline(text)
    except CannotCompactError:
        return
    assert json.dumps(outline)


def test_an_outline_has_three_lines_and_at_most_200000_characters():
    three_lines = "a: 1\nb: 2\nc: "

    assert parse_outline(three_lines + "x" * 199_987)
    with pytest.raises(CannotCompactError):
        parse_outline(three_lines + "x" * 199_988)
    with pytest.raises(CannotCompactError):
        parse_outline("a: 1\nb: 2")
