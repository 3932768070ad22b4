from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.prediction.changes import (
    CallTraces,
    ChangeKind,
    PromptChange,
    first_change,
    prefix_parameters,
    repeated_bytes,
    trace_call,
)
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.prompt import parse_prompt
from tests.examples import examples
from tests.proxy.prefix.sent_calls import ANTHROPIC, OPENAI, VLLM, fingerprint, sent_chat

BODY = b"""{"model": "m", "messages": [], "temperature": 1, "reasoning_effort": "low",
"verbosity": null, "tool_choice": "auto", "prompt_cache_key": "k"}"""
RULES = "Be kind.\nBe brief.\nBe true."
TALK = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", "e")]


def test_openais_prefix_parameters_of_a_chat_body():
    parameters = prefix_parameters(parse_prompt(BODY), OPENAI, fingerprint)

    assert set(parameters.early) == {"model", "prompt_cache_key", "reasoning_effort"}
    assert parameters.late == {}


def test_a_tool_choice_shapes_anthropics_messages_only():
    parameters = prefix_parameters(parse_prompt(BODY), ANTHROPIC, fingerprint)

    assert set(parameters.early) == {"model", "reasoning_effort"}
    assert set(map(len, [*parameters.early.values(), *parameters.late.values()])) == {8}
    assert set(parameters.late) == {"tool_choice"}


def test_engines_are_keyed_by_salt_or_key():
    assert set(prefix_parameters(parse_prompt(BODY), VLLM, fingerprint).early) == {
        "model",
        "prompt_cache_key",
        "reasoning_effort",
    }


def test_the_upstreams_name_of_the_model_counts():
    one = prefix_parameters(parse_prompt(BODY), VLLM, fingerprint)
    other = prefix_parameters(parse_prompt(BODY), VLLM, fingerprint, model="m-2026")

    assert one.early["model"] != other.early["model"]


def test_a_body_without_a_model_has_parameters_too():
    assert "model" in prefix_parameters(parse_prompt(b'{"messages": []}'), VLLM, fingerprint).early


def test_openais_prefix_parameters_of_a_responses_body():
    raw = (
        b'{"input": "x", "reasoning": {"effort": "low", "summary": "auto"}, "text": {"format":'
        b' {"type": "text"}, "verbosity": null}, "prompt_cache_key": "k", "model": "m"}'
    )
    parameters = prefix_parameters(parse_prompt(raw), OPENAI, fingerprint)

    assert set(parameters.early) == {"model", "prompt_cache_key", "reasoning.effort", "text.format"}


def test_a_parameter_of_an_unexpected_shape_is_ignored():
    parameters = prefix_parameters(
        parse_prompt(b'{"input": "x", "reasoning": "low"}'), OPENAI, fingerprint
    )

    assert set(parameters.early) == {"model"}


def change_between(before: SentCall, after: SentCall) -> PromptChange | None:
    return first_change(after, trace_call(before, 0))


def call(system: str, *talk: tuple[str, str], tools: tuple[str, ...] = (), **more: Any) -> SentCall:
    more = {"conversation": b"one", **more}
    return sent_chat(VLLM, ("system", system), *talk, tools=tools, **more)


def test_a_conversation_that_goes_on_has_no_change():
    assert change_between(call(RULES, *TALK[:3], tail=0), call(RULES, *TALK)) is None
    assert change_between(call(RULES, *TALK), call(RULES, *TALK)) is None


def test_a_missing_variable_tail_is_no_change():
    before = call(RULES, *TALK[:3], ("system", "It is noon."), tail=1)

    assert change_between(before, call(RULES, *TALK, ("system", "It is late."), tail=1)) is None


def test_tools_that_moved_changed_came_or_went_are_named():
    def tools(*names: str) -> SentCall:
        return call(RULES, *TALK, tools=names)

    changes = [
        change_between(tools("a", "b", "c"), tools(*after))
        for after in [("a", "c", "b"), ("a", "x", "c"), ("a", "x", "b", "c"), ("a", "c")]
    ]
    assert [change and (change.place, change.kind) for change in changes] == [
        ("tools[1]", ChangeKind.MOVED),
        ("tools[1]", ChangeKind.CHANGED),
        ("tools[1]", ChangeKind.ADDED),
        ("tools[1]", ChangeKind.REMOVED),
    ]
    assert change_between(tools("a"), tools("a", "b")) == PromptChange(
        place="tools[1]", kind=ChangeKind.ADDED, block=1
    )
    assert change_between(tools("a", "b"), tools("a")) == PromptChange(
        place="tools[1]", kind=ChangeKind.REMOVED
    )


def test_the_line_of_a_system_text_is_named():
    change = change_between(call(RULES, *TALK), call(RULES.replace("brief", "long"), *TALK))

    assert change == PromptChange(place="system line 2", kind=ChangeKind.CHANGED, block=0, line=1)


def test_of_several_leading_texts_the_one_is_named():
    before = call(RULES, ("developer", "x\ny"), *TALK)
    after = call(RULES, ("developer", "x\nz"), *TALK)

    assert change_between(before, after) == PromptChange(
        place="developer[1] line 2", kind=ChangeKind.CHANGED, block=1, line=1
    )
    assert change_between(before, call(RULES, *TALK)) == PromptChange(
        place="system[1]", kind=ChangeKind.REMOVED
    )
    assert change_between(before, sent_chat(VLLM, *TALK)) == PromptChange(
        place="system[0]", kind=ChangeKind.REMOVED
    )


def test_a_text_without_known_lines_is_named_as_a_whole():
    plain = SentCall(regime=VLLM, blocks=call(RULES).blocks)
    other = SentCall(regime=VLLM, blocks=call("x").blocks)

    assert change_between(plain, other) == PromptChange(
        place="system", kind=ChangeKind.CHANGED, block=0
    )
    assert repeated_bytes(other, trace_call(plain, 0)) == 0


def test_a_difference_in_spelling_that_no_line_shows_is_the_whole_texts():
    before, after = call(RULES), call("x")
    after = SentCall(regime=VLLM, blocks=after.blocks, lines=before.lines)

    assert change_between(before, after) == PromptChange(
        place="system", kind=ChangeKind.CHANGED, block=0
    )


def test_an_edited_message_is_named_by_its_index():
    change = change_between(call(RULES, *TALK[:3]), call(RULES, ("user", "x"), *TALK[1:]))

    assert change == PromptChange(place="messages[1]", kind=ChangeKind.CHANGED, block=1, dropped=1)


def test_messages_that_are_gone_are_counted():
    change = change_between(call(RULES, *TALK), call(RULES, *TALK[3:], ("user", "f")))

    assert change == PromptChange(place="messages[1]", kind=ChangeKind.REMOVED, block=1, dropped=3)
    assert change_between(call(RULES, *TALK), call(RULES)) == PromptChange(
        place="messages[1]", kind=ChangeKind.REMOVED, dropped=5
    )


def test_another_conversation_is_compared_by_tools_and_leading_texts_only():
    other = call(RULES, ("user", "x"), conversation=b"two")

    assert change_between(call(RULES, *TALK), other) is None
    assert repeated_bytes(other, trace_call(call(RULES, *TALK), 0)) == other.blocks[0].size


def test_unknown_conversations_are_not_the_same():
    one = sent_chat(VLLM, *TALK)

    assert repeated_bytes(one, trace_call(one, 0)) == 0


def test_repeated_bytes_count_wherever_they_stand():
    before = call(f"It is Monday.\n{RULES}", *TALK[:3], tools=("a", "b"))
    after = call(f"It is Friday.\n{RULES}", *TALK, tools=("b", "a"))
    whole = sum(block.size for block in after.blocks[:6])

    lost = whole - repeated_bytes(after, trace_call(before, 0))
    assert len("It is Friday.\n") - 1 <= lost <= len("It is Friday.\n") + 3


def test_text_sent_twice_counts_once_in_repeated_bytes():
    before = call(RULES, ("user", "a" * 100), ("assistant", "b"))
    after = call(RULES, ("user", "a" * 100), ("assistant", "b"), ("user", "a" * 100))

    assert repeated_bytes(after, trace_call(before, 0)) == sum(
        block.size for block in before.blocks
    )


def test_the_last_call_of_the_conversation_is_found_before_the_features():
    traces = CallTraces()
    traces.record_call(call("a", feature=b"f", conversation=b"one"), 1)
    traces.record_call(call("b", feature=b"f", conversation=b"two"), 2)

    def at(feature: bytes, conversation: bytes) -> float | None:
        previous = traces.previous_call(call("c", feature=feature, conversation=conversation))
        return previous.at if previous else None

    assert at(b"f", b"one") == 1
    assert at(b"f", b"three") == 2
    assert at(b"f", b"") == 2
    assert at(b"g", b"three") is None


@examples(25)
@given(st.lists(st.sampled_from("abcde"), max_size=6), st.lists(st.sampled_from("abcde")))
def test_a_change_is_found_exactly_where_tools_differ(before, after):
    change = change_between(call(RULES, tools=tuple(before)), call(RULES, tools=tuple(after)))

    assert (change is None) == (before == after)
    pairs = enumerate(zip(before, after, strict=False))
    least = min(len(before), len(after))
    first = next((at for at, (one, other) in pairs if one != other), least)
    assert change is None or change.place == f"tools[{first}]"


@examples(25)
@given(st.lists(st.sampled_from("abcde"), max_size=6), st.lists(st.sampled_from("abcde")))
def test_repeated_bytes_count_each_block_as_often_as_before(before, after):
    one, other = (
        call(RULES, *(("user", word * 50) for word in words)) for words in (before, after)
    )
    both = Counter(block.digest for block in one.blocks) & Counter(
        block.digest for block in other.blocks
    )
    sizes = {block.digest: block.size for block in other.blocks}

    assert repeated_bytes(other, trace_call(one, 0)) == sum(
        sizes[digest] * count for digest, count in both.items()
    )


def test_of_a_very_long_conversation_an_early_change_is_found_and_what_is_compared_is_bounded():
    messages = [("user", f"message {number}") for number in range(3_000)]
    before, after = call(RULES, *messages), call(RULES, *messages[:5], ("user", "x"), *messages[5:])

    change = change_between(before, after)

    assert change == PromptChange(place="messages[6]", kind=ChangeKind.ADDED, block=6)
    again, compared = repeated_bytes(after, trace_call(before, 0)), after.blocks[:1_025]
    assert again == sum(block.size for block in compared) - after.blocks[6].size


def test_of_many_long_texts_few_lines_each_are_compared():
    def texts(word: str) -> list[tuple[str, str]]:
        lines = "\n".join(["shared", *(f"{word} {number}" for number in range(99)), "shared"])
        return [("system", f"{index} {word}\n{lines}") for index in range(256)]

    before, after = (sent_chat(VLLM, *texts(word), *TALK) for word in ("one", "two"))
    again = repeated_bytes(after, trace_call(before, 0))

    # Beside the bound stands the last line, which is the same again.
    assert 256 * len("shared\n") <= again < 256 * 2 * len("shared")


def test_a_trace_counts_the_bytes_of_its_fingerprints_and_texts():
    fingerprints = 1 + 3 + len(TALK[:2])

    assert trace_call(call(RULES, *TALK[:2]), 0).size == 1_100 + 8 * fingerprints + 50
