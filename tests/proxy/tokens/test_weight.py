import pytest

from proxy.tokens.weight import part_tokens


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("two words", 2),
        (["two words", "one"], 3),
        ({"role": "user", "content": "two words"}, 3),
        ({"role": "user", "content": [{"type": "text", "text": "two words"}]}, 3),
        ({"role": "assistant", "content": None, "refusal": "no"}, 2),
        ({"type": "image_url", "image_url": {"url": "data:a b c"}}, 765),
        ({"type": "image_url", "image_url": {"url": "data:a b c", "detail": "low"}}, 85),
        ({"type": "input_image", "image_url": "data:a b c", "detail": "low"}, 85),
        ({"type": "image", "source": {"type": "base64", "data": "a b c"}}, 765),
        ({"type": "input_audio", "input_audio": {"data": "a b c"}}, 1500),
        ({"type": "document", "source": {"data": "a b c"}}, 1500),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "t", "function": {"name": "f", "arguments": "{ }"}}],
            },
            1 + 7 + 1 + 2,
        ),
        ({"tool_calls": [{"custom": {"name": "f", "input": "two words"}}]}, 7 + 1 + 2),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, 1 + 7 + 1 + 1),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, 7 + 1 + 1),
        ({"type": "function_call_output", "call_id": "c", "output": "two words"}, 2),
        ({"type": "reasoning", "summary": [{"text": "two words"}], "encrypted_content": "a"}, 2),
        ({"type": "tool_use", "id": "t", "name": "f", "input": {"a": "b c"}}, 7 + 1 + 2),
        ({"type": "tool_result", "content": [{"type": "text", "text": "two words"}]}, 2),
        ({"type": "thinking", "thinking": "two words", "signature": "a b"}, 2),
        ({"role": "user", "name": "Ada", "content": "one"}, 1 + 2 + 1),
        ({"role": "tool", "name": "f", "content": "one"}, 2),
        (None, 0),
        (7, 0),
    ],
)
def test_each_part_weighs_what_the_model_reads_of_it(value: object, tokens: int) -> None:
    assert part_tokens(value, words) == tokens


def test_endless_nesting_does_not_exhaust_the_stack() -> None:
    value: object = "deep"
    for _ in range(5000):
        value = [value]

    assert part_tokens(value, words) == 0
