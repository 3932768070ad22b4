from typing import Any

import pytest

from proxy.providers.responses.fields import convert_value, fields, known_kinds
from tests.fakes.refusals import refusing


def test_the_top_level_fields_come_out_in_their_order() -> None:
    assert list(fields(b'{"model":"m","input":[1,2.5,null]}').items()) == [
        ("model", "m"),
        ("input", [1, 2.5, None]),
    ]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'"x"', b"\xff", b"[" * 2000])
def test_anything_but_one_json_object_is_refused(body: bytes) -> None:
    with refusing(400) as caught:
        fields(body)

    assert caught.value.code == "invalid_json"
    assert "JSON object" in caught.value.message


@pytest.mark.parametrize(
    ("value", "shape", "param"),
    [
        (5, str, "input"),
        ([{"a": 1}, {"a": "x"}], list[dict[str, int]], "input[1][...]"),
        ({"a": [1, "x"]}, dict[str, list[int]], "input[...][1]"),
    ],
)
def test_a_wrong_shape_names_the_path_of_what_is_wrong(
    value: object, shape: Any, param: str
) -> None:
    with refusing(400) as caught:
        convert_value(value, shape, "input")

    assert (caught.value.code, caught.value.param) == ("invalid_value", param)
    assert caught.value.message.startswith(f"`{param}` is wrong: ")


def test_a_right_shape_comes_out_as_it_went_in() -> None:
    assert convert_value(["a"], list[str], "input") == ["a"]


def test_an_unknown_type_is_named_with_the_way_to_fix_it() -> None:
    with refusing(400) as caught:
        known_kinds([{"type": "a"}, {"type": "b"}], ("a",), "tools", "Send a.")

    assert caught.value.param == "tools[1].type"
    assert caught.value.message == "`b` is not supported for this model. Send a."


def test_an_item_without_a_type_is_read_by_its_shape() -> None:
    known_kinds([5, {}, {"type": 5}, {"type": "a"}], ("a",), "tools", "Send a.")
