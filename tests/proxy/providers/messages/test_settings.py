"""Facts of a request that the way back of its answer needs."""

import pytest

from proxy.providers.messages.target import ChatTarget
from tests.fakes.messages_calls import Json, request

TEXT = ChatTarget(thinking="text")


def test_message_settings_name_the_model_and_the_stop_sequences() -> None:
    settings = request(stop_sequences=["a", "b"]).settings

    assert (settings.model, settings.stops) == ("gpt-x", frozenset({"a", "b"}))
    assert settings.digest != request().settings.digest


@pytest.mark.parametrize(
    ("thinking", "target", "display"),
    [
        (None, TEXT, "hidden"),
        ({"type": "disabled"}, TEXT, "hidden"),
        ({"type": "adaptive"}, ChatTarget(), "shown"),
        ({"type": "enabled", "budget_tokens": 2000, "display": "summarized"}, TEXT, "shown"),
        ({"type": "adaptive", "display": "omitted"}, TEXT, "sealed"),
        ({"type": "adaptive", "display": "omitted"}, ChatTarget(), "hidden"),
        ({"type": "adaptive", "display": "omitted"}, ChatTarget(takes_call_extras=True), "sealed"),
    ],
)
def test_reasoning_is_shown_where_it_was_asked_for_and_kept_for_whom_reads_it(
    thinking: Json | None, target: ChatTarget, display: str
) -> None:
    assert request(target=target, thinking=thinking).settings.thinking == display


def test_the_prompts_tokens_are_estimated_without_encoded_images() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}
    words = {"type": "text", "text": "a word or two " * 1_000}
    content = [{"type": "image", "source": image}, words]

    assert request({"role": "user", "content": [words]}).settings.prompt_tokens >= 3_500
    assert request({"role": "user", "content": content}).settings.prompt_tokens <= 3_700
