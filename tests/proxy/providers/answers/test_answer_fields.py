"""The places of an answer that are read, and that all others cost nothing."""

from typing import Any

import orjson
import pytest

from proxy.providers.answers.answer_fields import AnswerFields, read_answer


def read(value: object) -> AnswerFields:
    answer = read_answer(orjson.dumps(value), max_repaired_bytes=0)
    assert answer is not None
    return answer


def usages(answer: AnswerFields) -> list[dict[str, Any] | None]:
    return [part.usage_object() for part in answer.parts()]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"id": "a", "message": {"id": "b"}}, "a"),
        ({"message": {"id": "b"}}, "b"),
        ({"id": 5, "message": ["b"], "response": {"id": "c"}}, "c"),
        ({"id": "", "x_groq": {"id": "req"}}, ""),
        ({"id": {"id": "a"}}, ""),
        ({"responseId": "r", "candidates": []}, "r"),
    ],
)
def test_the_id_stands_in_the_answer_or_in_what_it_begins(value, expected):
    assert read(value).answer_id() == expected


def test_usage_stands_in_the_answer_or_in_what_it_carries_and_the_answer_s_own_comes_last():
    value = {name: {"usage": {"n": name}} for name in ("message", "response", "x_groq")}

    assert usages(read(value | {"usage": {"n": 1}})) == [
        {"n": "message"},
        {"n": "response"},
        {"n": "x_groq"},
        {"n": 1},
    ]
    assert usages(read({"usage": None, "message": 7})) == [None]
    assert usages(read({"usage": {"n": "x" * 70_000}})) == [None]


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([{"finish_reason": "stop", "usage": {"prompt_tokens": 3}}], [{"prompt_tokens": 3}]),
        ([{"finish_reason": None, "usage": {"prompt_tokens": 3}}], []),
        ([{"finish_reason": "stop", "delta": {"usage": {"prompt_tokens": 3}}}], []),
        (
            [
                {"finish_reason": "stop", "usage": None},
                {"finish_reason": "stop", "usage": {"a": 1}},
            ],
            [{"a": 1}],
        ),
        ({"usage": {"prompt_tokens": 3}}, []),
        ([{"usage": 3}, 4], []),
    ],
)
def test_usage_may_stand_in_a_choice_that_has_ended(choices, expected):
    answer = read_answer(orjson.dumps({"id": "c", "choices": choices}), max_repaired_bytes=0)

    assert answer is not None
    assert [
        usage for part in answer.parts() if (usage := part.usage_object()) is not None
    ] == expected


def test_a_number_that_none_can_hold_is_none_and_the_rest_of_the_usage_is_read():
    answer = read_answer(b'{"usage":{"a":1e999,"b":2}}', max_repaired_bytes=0)

    assert answer is not None
    assert usages(answer) == [{"a": None, "b": 2}]


@pytest.mark.parametrize("error", [None, "", {}, [], 0, False])
def test_an_empty_error_field_is_no_error(error):
    assert not read({"error": error}).is_error
    assert not read({}).is_error


@pytest.mark.parametrize("error", ["x", {"code": 1}, [0], 1, True, {"message": "Overloaded now"}])
def test_an_error_field_with_a_value_is_an_error(error):
    assert read({"error": error}).is_error


def test_the_type_and_the_tier_are_strings():
    assert (read({"type": "ping"}).kind, read({"type": ["ping"]}).kind) == ("ping", None)
    assert (read({"service_tier": "flex"}).tier(), read({"service_tier": {}}).tier()) == (
        "flex",
        "",
    )


ENDED = {"index": 3, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("value", "ended"),
    [
        ({"choices": [ENDED, {"index": 1, "finish_reason": None}]}, [b"3"]),
        ({"choices": [{"finish_reason": "length"}]}, [b"0"]),
        ({"choices": [{"finish_reason": ""}, {"finish_reason": {"a": 1}}]}, []),
        ({"delta": {"stop_reason": "end_turn"}}, [b"0"]),
        ({"delta": {"stop_reason": None}}, []),
        ({"candidates": [{"index": 2, "finishReason": "STOP"}, {"content": {}}]}, [b"2"]),
        ({"candidates": [{"finishReason": "STOP"}, {"x": [{"a": 1}] * 60_000}]}, []),
        ({"candidates": [7]}, []),
        ({"choices": [7]}, []),
        ({"choices": "stop", "delta": '"stop_reason":"x"'}, []),
        ({"choices": [ENDED, {"x": [{"a": 1}] * 60_000}]}, [b"0"]),
        ({"choices": [{"x": [{"a": 1}] * 60_000}]}, []),
    ],
)
def test_a_choice_has_ended_once_it_says_why(value, ended):
    assert read(value).ended_choices() == ended


def test_a_short_answer_of_nearly_json_is_read():
    nearly = b'{"id":"a","x":NaN}'

    assert read_answer(nearly, max_repaired_bytes=0) is None
    answer = read_answer(nearly, max_repaired_bytes=100)
    assert answer is not None
    assert answer.answer_id() == "a"
    assert read_answer(b"[NaN]", max_repaired_bytes=100) is None


def test_googles_usage_stands_under_a_name_of_its_own():
    (part,) = read({"usageMetadata": {"promptTokenCount": 3}}).parts()

    assert part.usage_object() == {"promptTokenCount": 3}
