from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.vocabulary import Tokenizer
from proxy.tokens.counter import TokenCounter
from proxy.tokens.declared import declaration

_CASSETTES = Path(__file__).resolve().parents[3] / "../shared/data/A/crewAIInc+crewAI"


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return TokenCounter()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer("o200k_base")


def chat(*messages: object, **rest: object) -> bytes:
    return orjson.dumps({"model": "gpt-4o", "messages": messages, **rest})


def message(text: object, role: str = "user") -> dict[str, object]:
    return {"role": role, "content": text}


def test_messages_weigh_their_text_and_what_surrounds_it(
    counter: TokenCounter, tokenizer: Tokenizer
) -> None:
    body = chat(message("You are kind.", "system"), message("Hello there"))

    words = tokenizer.count("You are kind.") + tokenizer.count("Hello there")
    assert counter.prompt_tokens(body, "chat/completions", "gpt-4o") == words + 2 * (3 + 1) + 3


def test_a_speakers_name_counts_and_a_tools_does_not(counter: TokenCounter) -> None:
    def tokens(message: dict[str, object]) -> int:
        return counter.prompt_tokens(chat(message), "chat/completions", "gpt-4o")

    assert tokens({**message("Hi"), "name": "Ada"}) == tokens(message("Hi")) + 2
    assert tokens({**message("Hi", "tool"), "name": "Ada"}) == tokens(message("Hi", "tool"))
    assert tokens({**message("Hi"), "name": 7}) == tokens(message("Hi"))


def test_tools_and_a_schema_add_what_they_declare(
    counter: TokenCounter, tokenizer: Tokenizer
) -> None:
    tool = {"type": "function", "function": {"name": "look_up", "description": "Finds a page."}}
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}}
    written = '{"type":"object","properties":{"page":{"type":"integer"}}}'
    response_format = {"type": "json_schema", "json_schema": {"name": "page", "schema": schema}}

    def tokens(**rest: object) -> int:
        return counter.prompt_tokens(chat(message("Hi"), **rest), "chat/completions", "gpt-4o")

    assert tokens(tools=[tool]) - tokens() == 6 + tokenizer.count(declaration([tool]))
    assert tokens(functions=[tool["function"]]) == tokens(tools=[tool])
    assert tokens(tools=[]) == tokens(tools="odd") == tokens(tools=None) == tokens()
    assert tokens(response_format=response_format) - tokens() == tokenizer.count(written)
    assert tokens(response_format={"type": "json_object"}) == tokens()
    assert tokens(response_format="odd") == tokens()


def test_responses_weigh_a_text_as_a_message(counter: TokenCounter) -> None:
    def tokens(**body: object) -> int:
        return counter.prompt_tokens(orjson.dumps(body), "responses", "gpt-5")

    assert tokens(input="Hello there") == 3 + 3 + 1 + 2
    assert tokens(input=[message("Hello there")]) == 3 + 3 + 1 + 2
    assert tokens(input="Hello there", instructions="Be kind.") == 3 + 3 + 1 + 2 + 3 + 3
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    assert tokens(input="Hello there", text={"format": schema}) == 3 + 3 + 1 + 2 + 5
    assert tokens(input="Hello there", text={"format": {"type": "text"}}) == 3 + 3 + 1 + 2


def test_anthropics_system_prompt_is_a_message(counter: TokenCounter) -> None:
    body = orjson.dumps({"system": [{"type": "text", "text": "Be kind."}], "messages": []})

    assert counter.prompt_tokens(body, "messages", "claude-opus-5-5") == 3 + 3 + 3


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("Hello there", 2),
        (["Hello there", "Hello"], 3),
        ([1, 2, 3], 3),
        ([[1, 2, 3], [4]], 4),
        ([], 0),
        (None, 0),
        ({"odd": 1}, 0),
    ],
)
def test_completions_and_embeddings_count_texts_and_tokens(
    counter: TokenCounter, value: object, tokens: int
) -> None:
    prompt, given_input = orjson.dumps({"prompt": value}), orjson.dumps({"input": value})

    assert counter.prompt_tokens(prompt, "completions", "gpt-4o") == tokens
    assert counter.prompt_tokens(given_input, "embeddings", "text-embedding-3-small") == tokens


@pytest.mark.parametrize(
    ("body", "endpoint"),
    [
        (b'{"query":"Hello there"}', "rerank"),
        (b'{"messages":"Hello"}', "chat/completions"),
        (b"Hello", "chat/completions"),
        (b"", "chat/completions"),
    ],
)
def test_a_part_that_is_not_understood_counts_as_its_text(
    counter: TokenCounter, tokenizer: Tokenizer, body: bytes, endpoint: str
) -> None:
    assert counter.prompt_tokens(body, endpoint, "gpt-4o") == tokenizer.count(body.decode())


def test_a_part_without_text_counts_no_tokens(counter: TokenCounter) -> None:
    assert counter.prompt_tokens(b"RIFF\xff\x00", "audio/transcriptions", "gpt-4o") == 0


@pytest.mark.parametrize("oddity", [b"\\ud83d", b"\xff"])
def test_text_that_is_not_quite_unicode_is_not_forgotten(
    counter: TokenCounter, oddity: bytes
) -> None:
    body = b'{"messages":[{"role":"user","content":"' + b"word " * 50 + oddity + b'"}]}'

    assert 50 < counter.prompt_tokens(body, "chat/completions", "gpt-4o") < 100


def test_a_message_nested_beyond_reason_is_as_long_as_its_text(counter: TokenCounter) -> None:
    body = b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    assert counter.prompt_tokens(body, "chat/completions", "gpt-4o") > 1000


def test_generated_text_is_counted_with_the_models_vocabulary(counter: TokenCounter) -> None:
    assert counter.generated_tokens("你好世界", "gpt-4o") == 2
    assert counter.generated_tokens("你好世界", "gpt-4") == 5


class CountingTokenizer:
    """A tokenizer that says how many texts it was asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return 1


def counter_and_calls(entries: int) -> tuple[TokenCounter, CountingTokenizer]:
    counter, counted = TokenCounter(entries), CountingTokenizer()
    counter._tokenizers["o200k_base"] = counted  # type: ignore[assignment]
    return counter, counted


def test_a_growing_conversation_costs_only_its_new_text() -> None:
    counter, counted = counter_and_calls(100)
    for turns in range(1, 6):
        body = chat(*(message(f"turn {n}") for n in range(turns)), model="m")
        counter.prompt_tokens(body, "chat/completions", "gpt-4o")

    assert [text for text in counted.texts if text != "user"] == [f"turn {n}" for n in range(5)]


def test_only_so_many_messages_are_remembered() -> None:
    counter, counted = counter_and_calls(2)
    for text in ("a", "b", "a", "c", "a", "b"):
        counter.prompt_tokens(chat(message(text)), "chat/completions", "gpt-4o")

    assert [text for text in counted.texts if text != "user"] == ["a", "b", "c", "b"]
    assert len(counter._weights) == 2


def test_the_same_bytes_weigh_apart_by_vocabulary_and_meaning(counter: TokenCounter) -> None:
    body = orjson.dumps({"input": "你好世界", "prompt": "你好世界"})

    weights = [
        counter.prompt_tokens(body, endpoint, model)
        for endpoint in ("embeddings", "responses")
        for model in ("gpt-4o", "gpt-4")
    ]

    assert weights == [2, 5, 9, 12]


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["Hi", "tool", "text", "image_url"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "tool_calls", "function", "name"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(messages=st.lists(values, max_size=4), endpoint=st.sampled_from(["messages", "responses"]))
def test_counting_twice_gives_the_same_and_never_less_than_nothing(
    counter: TokenCounter, messages: list[Any], endpoint: str
) -> None:
    body = orjson.dumps({"messages": messages, "input": messages, "tools": messages})

    tokens = counter.prompt_tokens(body, endpoint, "gpt-4o")

    forgetful = TokenCounter(0)
    forgetful._tokenizers = counter._tokenizers
    assert tokens == forgetful.prompt_tokens(body, endpoint, "gpt-4o")
    assert tokens >= 3


def recorded_prompts() -> Iterator[tuple[dict[str, Any], str, int]]:
    for path in sorted(_CASSETTES.rglob("*.yaml")):
        for call in yaml.load(path.read_bytes(), yaml.CSafeLoader)["interactions"]:
            request, answer = call["request"], call["response"]
            if "api.openai.com/v1/chat/" in request["uri"] and answer["status"]["code"] == 200:
                text = answer["body"].get("string") or ""
                if text.startswith("{"):
                    document = orjson.loads(text)
                    yield (
                        orjson.loads(request["body"]),
                        document["model"],
                        document["usage"]["prompt_tokens"],
                    )


@pytest.mark.slow
def test_recorded_prompts_are_counted_as_openai_did(counter: TokenCounter) -> None:
    if not _CASSETTES.is_dir():
        pytest.skip("The recorded calls are not here.")
    plain, exact, with_tools, off = 0, 0, 0, 0.0
    for body, model, reported in recorded_prompts():
        if not model.startswith(("gpt-3.5", "gpt-4")) or b"image_url" in orjson.dumps(body):
            continue
        counted = counter.prompt_tokens(orjson.dumps(body), "chat/completions", model)
        if body.get("tools") or body.get("response_format"):
            with_tools += 1
            off += abs(counted - reported) / reported
        elif not any(message.get("tool_calls") for message in body["messages"]):
            plain += 1
            exact += counted == reported

    assert plain > 400
    assert exact == plain
    assert with_tools > 200
    assert off / with_tools < 0.025
