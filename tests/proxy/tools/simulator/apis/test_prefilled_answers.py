"""Tests of answers whose beginning the caller brings."""

from typing import Any

import pytest

from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.rendering import Vocabulary
from tests.proxy.tools.simulator.scene import SimulatorHarness, user

TOLD = {"continue_final_message": True, "add_generation_prompt": False}
PLAIN = user("Tell me about refunds.")


def harness(vocabulary: Vocabulary, continues: Any) -> SimulatorHarness:
    return SimulatorHarness(vocabulary, {"m": SimulatedModel(regime="", continues=continues)})


def answer(lab: SimulatorHarness, *messages: Any, **fields: Any) -> tuple[str, dict[str, int]]:
    document = lab.openai("chat/completions", {"model": "m", "messages": [*messages], **fields})
    assert document.status_code == 200, document.text
    content = document.json()
    return content["choices"][0]["message"]["content"], content["usage"]


def begin_answer(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def test_an_engine_that_is_told_to_go_on_answers_the_rest_of_the_same_text(vocabulary: Vocabulary):
    lab = harness(vocabulary, "continue_final_message")
    whole, _ = answer(lab, PLAIN)

    for length in (20, 31, 64, len(whole) - 1):
        rest, usage = answer(lab, PLAIN, begin_answer(whole[:length]), **TOLD)
        assert whole[:length] + rest == whole
        assert usage["completion_tokens"] == len(vocabulary.ids(rest))


def test_an_engine_that_is_not_told_begins_a_new_message(vocabulary: Vocabulary):
    lab = harness(vocabulary, "continue_final_message")
    whole, _ = answer(lab, PLAIN)

    rest, _ = answer(lab, PLAIN, begin_answer(whole[:40]))

    assert rest.startswith("[simulated]")


@pytest.mark.parametrize(
    ("continues", "messages", "fields"),
    [
        ("continue_final_message", [PLAIN, begin_answer("So")], {"continue_final_message": True}),
        ("continue_final_message", [PLAIN], TOLD),
        ("prefix", [PLAIN, begin_answer("So")], {}),
        ("prefix", [PLAIN | {"prefix": True}], {}),
    ],
)
def test_a_beginning_that_cannot_be_gone_on_from_is_refused(
    vocabulary: Vocabulary, continues: str, messages: list[Any], fields: dict[str, Any]
):
    lab = harness(vocabulary, continues)

    refused = lab.openai("chat/completions", {"model": "m", "messages": messages, **fields})

    assert refused.status_code == 400


def test_an_echoing_provider_begins_its_answer_with_the_prefix(vocabulary: Vocabulary):
    lab = harness(vocabulary, "prefix_echoed")
    whole, _ = answer(lab, PLAIN)

    assert answer(lab, PLAIN, begin_answer(whole[:40], prefix=True))[0] == whole


def test_a_model_that_always_goes_on_needs_no_word(vocabulary: Vocabulary):
    lab = harness(vocabulary, "last_message")
    whole, _ = answer(lab, PLAIN)
    parts = [{"type": "text", "text": whole[:30]}, {"type": "text", "text": whole[30:40]}]

    assert answer(lab, PLAIN, begin_answer(whole[:40]))[0] == whole[40:]
    assert answer(lab, PLAIN, begin_answer(parts))[0] == whole[40:]  # type: ignore[arg-type]


def test_another_models_text_is_gone_on_from_by_its_words(vocabulary: Vocabulary):
    lab = harness(vocabulary, "last_message")
    whole, _ = answer(lab, PLAIN)

    rest, _ = answer(lab, PLAIN, begin_answer("One two three"))

    assert rest == "".join(f" {word}" for word in whole.split()[3:])


def test_claude_goes_on_from_the_assistants_last_message(scene: SimulatorHarness):
    whole = scene.anthropic({"messages": [PLAIN]}).json()["content"][0]["text"]

    rest = scene.anthropic({"messages": [PLAIN, begin_answer(whole[:50].rstrip())]}).json()

    assert whole[:50].rstrip() + rest["content"][0]["text"] == whole
