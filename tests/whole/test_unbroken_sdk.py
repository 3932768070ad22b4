"""Continued streams as the official SDKs read them, by their stream helpers."""

from collections.abc import Iterator

import anthropic
import httpx2
import openai
import pytest

from tests.fakes.plain_http import PLAIN
from tests.fakes.unbroken_streams import UnbrokenGateway, unbroken_gateway

#: Cut twice: between words and within one.
CUTS = ("death=9", "letters=4,short=31")
ASKED = "Tell me about holidays, please."


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnbrokenGateway]:
    with unbroken_gateway(tmp_path_factory.mktemp("unbroken")) as running:
        yield running


@pytest.fixture
def sdk(gateway: UnbrokenGateway) -> Iterator[openai.OpenAI]:
    plain = openai.DefaultHttpxClient(verify=PLAIN)
    with openai.OpenAI(
        base_url=gateway.url, api_key=gateway.key, max_retries=0, http_client=plain
    ) as client:
        yield client


def queue_cuts(gateway: UnbrokenGateway) -> str:
    """The whole text, after which the next call is cut."""
    whole = gateway.ask("chat/completions", "writer", ASKED).text
    gateway.lab._script.clear()
    gateway.lab.queue_directives([*CUTS, "ok"])
    return whole


def test_the_openai_sdk_puts_a_continued_chat_stream_together(
    gateway: UnbrokenGateway, sdk: openai.OpenAI
):
    whole = queue_cuts(gateway)
    with sdk.chat.completions.stream(
        model="writer", messages=[{"role": "user", "content": ASKED}]
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()

    assert final.choices[0].message.content == "".join(deltas) == whole
    assert final.choices[0].finish_reason == "stop"


def test_the_openai_sdk_puts_a_continued_response_together(
    gateway: UnbrokenGateway, sdk: openai.OpenAI
):
    whole = queue_cuts(gateway)
    with sdk.responses.stream(model="writer", input=ASKED) as stream:
        events = list(stream)
        final = stream.get_final_response()

    numbers = [event.sequence_number for event in events]
    assert final.output_text == whole
    assert numbers == sorted(set(numbers))
    assert [event.type for event in events].count("response.output_item.added") == 1
    assert len({event.item_id for event in events if hasattr(event, "item_id")}) == 1


@pytest.mark.parametrize("model", ["claude", "writer"])
def test_the_anthropic_sdk_puts_a_continued_message_together(gateway: UnbrokenGateway, model: str):
    whole = queue_cuts(gateway)
    with (
        anthropic.Anthropic(
            base_url=gateway.url.removesuffix("/v1"),
            api_key=gateway.key,
            max_retries=0,
            http_client=httpx2.Client(verify=PLAIN),
        ) as client,
        client.messages.stream(
            model=model, max_tokens=4000, messages=[{"role": "user", "content": ASKED}]
        ) as stream,
    ):
        text = "".join(stream.text_stream)
        final = stream.get_final_message()

    assert [block.text for block in final.content if block.type == "text"] == [text] == [whole]
    assert final.stop_reason == "end_turn"
