import pytest

from compaction.reading.signatures import is_signed

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "more",
    [
        {"thinking_blocks": [{"type": "thinking", "thinking": "…", "signature": "Eq"}]},
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "Eq"}]},
        {"thinking_blocks": [{"type": "said", "length": 2}, {"type": "newer", "data": "Eq"}]},
        {"thinking_blocks": [{"type": ["phase"]}]},
        {"thinking_blocks": ["Eq"]},
        {"thinking_blocks": "Eq"},
        {"provider_specific_fields": {"thinking_blocks": [{"data": "Eq"}]}},
        {"content": [{"type": "thinking", "thinking": "…", "signature": "Eq"}]},
        {"content": [{"type": "redacted_thinking", "data": "Eq"}, {"type": "text", "text": "a"}]},
        {"content": [{"type": "compaction", "content": "…"}]},
        {"content": [{"type": "text", "text": "a", "signature": "Eq"}]},
        {"reasoning_content": "…", "signature": "Eq"},
        {"reasoning_content": "…", "reasoning_signature": "Eq"},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "Eq"}]},
        {"reasoning": {"encrypted_content": "gA"}},
        {"encrypted_content": "gA"},
        {"provider_specific_fields": {"thought_signatures": ["Eq"]}},
        {"tool_calls": [CALL | {"extra_content": {"google": {"thought_signature": "Eq"}}}]},
        {"tool_calls": [CALL | {"provider_specific_fields": {"thoughtSignature": "Eq"}}]},
        {"tool_calls": [CALL | {"function": {"name": "f", "thought_signature": "Eq"}}]},
    ],
)
def test_content_that_a_provider_binds_to_its_place_is_signed(more):
    assert is_signed({"role": "assistant", "content": "a"} | more)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"reasoning_content": "I think", "reasoning": "I think"},
        {"thinking_blocks": [], "reasoning_details": None, "signature": ""},
        {"thinking_blocks": [{"type": "phase", "maker": "a/m", "phase": "commentary"}]},
        {"thinking_blocks": [{"type": "said", "length": 2}, {"type": "called", "id": "c"}]},
        {"content": "signature: thinking_blocks"},
        {"content": [{"type": ["thinking"], "text": "a"}]},
        {"tool_calls": [CALL | {"function": {"name": "sign", "arguments": '{"signature": "x"}'}}]},
        {"type": "thinking"},
    ],
)
def test_words_are_not(more):
    assert not is_signed({"role": "assistant", "content": "a"} | more)


def test_content_nested_too_deep_counts_as_signed():
    deep: object = "text"
    for _ in range(20):
        deep = [deep]

    assert is_signed({"role": "assistant", "content": deep})


def test_content_is_searched_eight_levels_deep():
    deep: object = "text"
    for _ in range(8):
        deep = [deep]

    assert not is_signed({"role": "assistant", "content": deep})
    assert is_signed({"role": "assistant", "content": [deep]})
