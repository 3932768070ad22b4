import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.unquoted import unquoted


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a":"JFK","b":[1,2]}', "{a:JFK b:[1 2]}"),
        ('[["a",1],["b",2]]', "[[a 1; b 2]]"),
        ('{"d":"2024-05-20","t":"06:00:00"}', "{d:2024-05-20 t:06:00:00}"),
        ('{"zip":"78750","x":"null"}', '{zip:"78750" x:"null"}'),
        ('{"a":"x, y","b":"say \\"hi\\""}', '{a:"x, y" b:"say \\"hi\\""}'),
        ("plain, text", "plain, text"),
        ("", ""),
    ],
)
def test_quotes_stay_only_where_they_are_needed(text, left):
    assert unquoted(text) == left


@given(st.dictionaries(st.text(), st.text() | st.lists(st.text()) | st.integers()))
def test_no_word_of_a_value_is_lost(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    left = unquoted(text)

    assert all(
        json.dumps(held, ensure_ascii=False)[1:-1] in left
        for held in value.values()
        if isinstance(held, str)
    )
