"""Turns of the Messages API as chat messages."""

from typing import Any

import pytest

from proxy.providers.messages.signatures import call_signature, own_signature, phase_signature
from proxy.providers.messages.target import ChatTarget
from tests.fakes.messages_calls import (
    CLAUDE,
    Json,
    assistant,
    calls,
    chat_body_and_notes,
    result,
    text,
    user,
)
from tests.fakes.refusals import refusing

MARK = {"type": "ephemeral"}
PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
}
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
BELOW = "(The result's images and files follow in the next message.)"
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HEADER = "x-anthropic-billing-header: cc_version=2.1.197.d00; cc_entrypoint=sdk-cli;"


def system(words: str) -> Json:
    return {"role": "system", "content": words}


def tool_calls(*names: str) -> list[Json]:
    function = {"name": "weather", "arguments": '{"city":"Bern"}'}
    return [{"id": name, "type": "function", "function": function} for name in names]


def tool(name: str, content: Any = "22 degrees", **more: Any) -> Json:
    return {"role": "tool", "tool_call_id": name, "content": content, **more}


def messages(*given: Json, **fields: Any) -> list[Json]:
    messages_sent: list[Json] = chat_body_and_notes(*given, **fields)[0]["messages"]
    return messages_sent


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("Be brief.", "Be brief."),
        ([text("a"), text("b", cache_control=MARK)], [text("a"), text("b", cache_control=MARK)]),
        ([text("a")], "a"),
        (f"{HEADER}\n\nBe brief.", "Be brief."),
        ([text(HEADER), text("a"), text("b")], [text("a"), text("b")]),
    ],
)
def test_the_system_prompt_comes_first_in_its_blocks(given: Any, content: Any) -> None:
    assert messages(user("Hi"), system=given) == [
        {"role": "system", "content": content},
        user("Hi"),
    ]


@pytest.mark.parametrize("given", [None, "", [], [text("")], HEADER, [text(HEADER)]])
def test_an_empty_system_prompt_is_none(given: Any) -> None:
    assert messages(user("Hi"), system=given) == [user("Hi")]


def test_the_attribution_line_is_named_as_left_out() -> None:
    notes = chat_body_and_notes(system=[text(HEADER), text("a")])[1]

    assert notes == ("dropped x-anthropic-billing-header: it is for Anthropic's accounts",)


def test_a_later_system_message_keeps_its_place() -> None:
    given = [user("Hi"), system("Agents: a, b."), assistant("Yes?"), user("Go")]

    assert messages(*given, system="Be brief.") == [system("Be brief."), *given]


def test_results_come_right_behind_their_calls_and_words_after_them() -> None:
    chat = messages(
        user("Weather?"),
        assistant(text("I look."), calls("t1"), calls("t2")),
        user(text("Well?"), result("t2", [text("rain"), text("wind")]), result("t1")),
    )

    assert chat[1:] == [
        {"role": "assistant", "content": "I look.", "tool_calls": tool_calls("t1", "t2")},
        tool("t2", "rain\n\nwind"),
        tool("t1"),
        user("Well?"),
    ]


def test_results_may_stand_in_several_messages_of_one_turn() -> None:
    chat = messages(
        user("Weather?"),
        assistant(calls("t1"), calls("t2")),
        user(result("t1")),
        user(result("t2")),
    )

    assert chat[2:] == [tool("t1"), tool("t2")]


def test_calls_of_neighbouring_messages_are_one_turn() -> None:
    chat = messages(
        user("Hi"), assistant("I look."), assistant(calls("t1")), user(result("t1"), text("?"))
    )

    assert chat[1]["content"] == "I look."
    assert chat[1]["tool_calls"] == tool_calls("t1")


def test_images_of_a_result_follow_in_a_users_message() -> None:
    given = [
        user("Look"),
        assistant(calls("t1", "camera"), calls("t2")),
        user(result("t1", [text("Two:"), PICTURE, PICTURE]), result("t2"), text("So?")),
    ]
    body, notes = chat_body_and_notes(*given)

    assert body["messages"][2:] == [
        tool("t1", f"Two:\n\n{BELOW}"),
        tool("t2"),
        user(text("From the result of the tool camera:"), SHOWN, SHOWN),
        user("So?"),
    ]
    assert notes == ("sent images of tool results in a user message: chat takes text there",)
    assert messages(*given, target=CLAUDE)[2] == tool("t1", [text("Two:"), SHOWN, SHOWN])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("no such city", "The tool failed.\n\nno such city"),
        (None, "The tool failed."),
        ([], "The tool failed."),
    ],
)
def test_a_failure_of_a_tool_is_said_in_words(content: Any, words: str) -> None:
    given = [user("Hi"), assistant(calls("t1")), user(result("t1", content, is_error=True))]
    body, notes = chat_body_and_notes(*given)

    assert body["messages"][2] == tool("t1", words)
    assert notes == ("wrote is_error into the text: chat has no such field",)
    assert messages(*given, target=CLAUDE)[2]["is_error"] is True


def test_a_mark_on_a_result_stays_on_its_message() -> None:
    chat = messages(user("Hi"), assistant(calls("t1")), user(result("t1", cache_control=MARK)))

    assert chat[2] == tool("t1", cache_control=MARK)


def test_a_results_text_stays_the_same_when_a_mark_within_it_moves_on() -> None:
    marked = result("t1", [text("a", cache_control=MARK), text("b", cache_control=MARK)])
    moved_on = result("t1", [text("a"), text("b")])
    history = (user("Hi"), assistant(calls("t1")))
    before, after = (messages(*history, user(given))[-1] for given in (marked, moved_on))

    assert before == {**after, "cache_control": MARK}
    assert after["content"] == "a\n\nb"


def test_tool_call_ids_are_sent_back_as_the_upstream_gave_them() -> None:
    name = "toolu_tg0a1b2c3d_call_9"
    chat = messages(user("Hi"), assistant(calls(name)), user(result(name)))

    assert chat[1]["tool_calls"][0]["id"] == chat[2]["tool_call_id"] == "call_9"


@pytest.mark.parametrize(
    ("target", "fields", "notes"),
    [
        (ChatTarget(), {}, 1),
        (ChatTarget(thinking="text"), {"reasoning_content": "Hm."}, 0),
        (CLAUDE, {"thinking_blocks": [THOUGHT]}, 0),
    ],
)
def test_thinking_goes_along_in_the_form_that_the_upstream_takes(
    target: ChatTarget, fields: Json, notes: int
) -> None:
    body, written = chat_body_and_notes(
        user("Hi"), assistant(THOUGHT, text("Yes.")), user("?"), target=target
    )

    assert body["messages"][1] == assistant("Yes.") | fields
    assert len(written) == notes


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        (ChatTarget(), {}),
        (ChatTarget(thinking="text"), {"reasoning_content": "Secret."}),
        (CLAUDE, {}),
    ],
)
def test_thinking_that_the_gateway_signed_goes_to_whom_reads_it_and_never_to_claude(
    target: ChatTarget, fields: Json
) -> None:
    sealed = {"type": "thinking", "thinking": "", "signature": own_signature("Secret.")}
    chat = messages(user("Hi"), assistant(sealed, text("Yes.")), user("?"), target=target)

    assert chat[1] == assistant("Yes.") | fields


@pytest.mark.parametrize("target", [ChatTarget(), ChatTarget(thinking="text"), CLAUDE])
def test_a_phase_goes_to_a_model_of_the_responses_api_alone(target: ChatTarget) -> None:
    phase = {"type": "phase", "maker": "openai/gpt-x", "phase": "commentary"}
    block = {
        "type": "thinking",
        "thinking": "",
        "signature": phase_signature("commentary", "openai/gpt-x"),
    }
    turns = (user("Hi"), assistant(block, text("So.")), user("?"))
    sealing = ChatTarget(thinking="sealed")

    assert messages(*turns, target=target)[1] == assistant("So.")
    assert messages(*turns, target=sealing)[1] == assistant("So.") | {"thinking_blocks": [phase]}


def test_the_place_of_thinking_among_calls_is_told_to_claude() -> None:
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    chat = messages(
        user("Hi"),
        assistant(THOUGHT, text("So"), redacted, calls("t1"), THOUGHT, text("and")),
        user(result("t1")),
        target=CLAUDE,
    )
    blocks = chat[1]["thinking_blocks"]

    assert [block["type"] for block in blocks] == [
        "thinking", "said", "redacted_thinking", "called", "thinking",
    ]  # fmt: skip


def test_an_answer_of_thinking_alone_is_left_out() -> None:
    assert messages(user("Hi"), assistant(THOUGHT), user("?")) == [user("Hi"), user("?")]


def test_a_last_message_of_the_assistant_is_sent_and_noted() -> None:
    body, notes = chat_body_and_notes(user("Hi"), assistant("{"))

    assert body["messages"][-1] == assistant("{")
    assert notes == ("the model does not go on from a last assistant message, but answers it",)


CALLED = assistant(calls("t1"), calls("t2"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "send a message"),
        ([{"role": "tool", "content": "x"}], "use user, assistant or system"),
        ([user("Hi"), {"role": "user", "content": []}], "send at least one block"),
        ([user("Hi"), CALLED], "No result for tool call 't1'"),
        ([user("Hi"), CALLED, user(result("t1"))], "No result for tool call 't2'"),
        ([user("Hi"), CALLED, user("?")], "in the very next message"),
        ([user("Hi"), CALLED, system("s"), user(result("t1"), result("t2"))], "No result"),
        ([user(result("t1"))], "answers no tool_use of the message before"),
        ([user("Hi"), CALLED, user(result("t1"), result("t2"), result("t2"))], "send it once"),
        ([user("Hi"), CALLED, user({"type": "tool_result"})], "add `tool_use_id`"),
        ([user("Hi"), assistant(result("t1"))], "Unknown block 'tool_result'"),
    ],
)
def test_an_order_that_no_model_takes_is_refused_with_a_fix(given: list[Json], words: str) -> None:
    with refusing(400, words):
        chat_body_and_notes(messages=given)


def test_a_conversation_that_goes_on_keeps_all_messages_it_had() -> None:
    first = [user("Hi"), assistant(THOUGHT, calls("t1")), user(result("t1", [PICTURE]), text("?"))]
    then = [*first, user("More"), assistant("Yes."), system("s"), user("And?")]
    before = messages(*first)

    assert messages(*then)[: len(before)] == before


SIGNED = {"google": {"thought_signature": "c2ln"}}
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}


@pytest.mark.parametrize(
    ("before", "extras"),
    [
        ([], [UNSIGNED, None]),
        ([THOUGHT], [UNSIGNED, None]),
        ([{"type": "thinking", "thinking": "", "signature": call_signature("t1", SIGNED)}],
         [SIGNED, None]),
        ([{"type": "thinking", "thinking": "", "signature": call_signature("t2", SIGNED)}],
         [UNSIGNED, SIGNED]),
    ],
)  # fmt: skip
def test_google_gets_its_signatures_of_calls_back_and_a_placeholder_for_others(
    before: list[Json], extras: list[Json | None]
) -> None:
    given = [user("Hi"), assistant(*before, *CALLED["content"]), user(result("t1"), result("t2"))]
    sent_calls = messages(*given, target=ChatTarget(takes_call_extras=True))[1]["tool_calls"]

    assert [call.get("extra_content") for call in sent_calls] == extras
    assert all("extra_content" not in call for call in messages(*given)[1]["tool_calls"])


def test_leaving_out_thinking_that_chat_never_takes_back_is_no_note() -> None:
    own = {"type": "thinking", "thinking": "Hm.", "signature": own_signature()}
    foreign = {"type": "thinking", "thinking": "Hm.", "signature": "Er8B"}

    assert chat_body_and_notes(user("Hi"), assistant(own, text("Yes.")), user("?"))[1] == ()
    assert chat_body_and_notes(user("Hi"), assistant(foreign, text("Yes.")), user("?"))[1] == (
        "dropped thinking blocks: this model takes none of another's",
    )
