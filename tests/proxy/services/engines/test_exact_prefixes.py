"""Routing by what replicas say that they hold, in the tokens of their engine."""

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest
from msgspec.structs import replace as replace_fields

from proxy.catalog.entries import Route
from proxy.engines.routing.decision import RoutingRequest
from proxy.engines.routing.kv_events import BlockStored, KvEventIndex
from proxy.engines.routing.prompt_chain import PromptChain
from proxy.engines.routing.replica import ReplicaCandidate
from proxy.engines.routing.router import ReplicaRouter
from proxy.records.call import MESSAGES, Call
from proxy.services.engines.exact_prefixes import ExactPrefixes
from proxy.services.engines.replica_monitor import ReplicaStatus
from tests.fakes.call_dependencies import call, route

TOKENS = tuple(range(800))
ROUTE = replace(route("house:0", model="m"), regime="block-chain")
ROUTE = replace(ROUTE, upstream=replace(ROUTE.upstream, provider="vllm"))
STATUSES = [
    ReplicaStatus(name=f"house:{n}", profile="house", model="m", base_url=f"http://{n}/v1")
    for n in range(3)
]
REQUEST = RoutingRequest(chain=PromptChain((1, 2), 400.0, 800))


class IndexReader:
    """Indexes of replicas by name."""

    def __init__(self, **indexes: KvEventIndex) -> None:
        self._indexes = {name.replace("_", ":"): index for name, index in indexes.items()}

    def index(self, name: str) -> KvEventIndex | None:
        return self._indexes.get(name)


class FakeTokenizer:
    def __init__(self, tokens: Sequence[int] | None = TOKENS) -> None:
        self._tokens = tokens
        self.base_urls: list[str] = []
        self.endpoints: list[str] = []

    async def token_bytes(self, call: Call, route: Route, base_url: str) -> bytes | None:
        self.base_urls.append(base_url)
        self.endpoints.append(call.endpoint)
        return None if self._tokens is None else array("I", self._tokens).tobytes()


def index_with_blocks(salt: str = "") -> KvEventIndex:
    index = KvEventIndex("m", 1_000)
    hashes = tuple(range(40))
    stored = BlockStored(
        block_hashes=hashes,
        parent_block_hash=None,
        token_ids=TOKENS[:640],
        block_size=16,
        cache_salt=salt,
    )
    index.apply(0, [stored])
    return index


def decide(
    reader: IndexReader,
    tokenizer: FakeTokenizer,
    call: Call,
    statuses: Sequence[ReplicaStatus] = STATUSES,
) -> tuple[str, int]:
    """The replica that is chosen, and the tokens that it is thought to hold."""
    router = ReplicaRouter()
    candidates = [ReplicaCandidate(name=status.base_url) for status in statuses]
    router.decide(REQUEST, candidates, 0.0)
    exact = ExactPrefixes(reader, tokenizer)  # type: ignore[arg-type]
    request = asyncio.run(exact.add(call, ROUTE, statuses, REQUEST, router))
    best = router.decide(request, candidates, 0.0).order[0]
    return best.name, best.matched_tokens


def chat(**fields: object) -> Call:
    return call(orjson.dumps({"model": "m", "messages": [], **fields}))


def test_a_call_goes_to_the_replica_that_says_it_holds_its_prompt():
    assert decide(IndexReader(house_2=index_with_blocks()), FakeTokenizer(), chat()) == (
        "http://2/v1",
        640,
    )


def test_a_prompt_of_another_salt_is_not_held():
    held, tokenizer = IndexReader(house_2=index_with_blocks("acme")), FakeTokenizer()

    assert decide(held, tokenizer, chat(cache_salt="acme")) == ("http://2/v1", 640)
    assert decide(held, tokenizer, chat(cache_salt="other"))[1] == 0
    assert decide(held, tokenizer, chat())[1] == 0


@pytest.mark.parametrize("words", [1, 20_000], ids=["short", "long, on a thread"])
def test_a_messages_call_is_tokenized_as_the_chat_call_that_its_engine_gets(words):
    held, tokenizer = IndexReader(house_2=index_with_blocks("a" * 32)), FakeTokenizer()
    messages = [{"role": "user", "content": "word " * words}]
    body = orjson.dumps({"model": "m", "max_tokens": 9, "messages": messages})
    request = replace_fields(call(body), endpoint=MESSAGES, salt="a" * 32)

    assert decide(held, tokenizer, request) == ("http://2/v1", 640)
    assert decide(held, tokenizer, replace_fields(request, salt="b" * 32))[1] == 0
    assert tokenizer.endpoints == ["chat/completions"] * 2


def responses(**fields: object) -> Call:
    body = orjson.dumps({"model": "m", "input": "Hello", **fields})
    return replace_fields(call(body), endpoint="responses", salt="a" * 32)


def test_a_responses_call_is_tokenized_as_chat_as_its_engine_lays_it_out():
    held, tokenizer = IndexReader(house_2=index_with_blocks("a" * 32)), FakeTokenizer()
    tools = [{"type": "function", "name": "f", "parameters": {}}]

    assert decide(held, tokenizer, responses(tools=tools)) == ("http://2/v1", 640)
    assert decide(held, tokenizer, responses(cache_salt="own"))[1] == 0
    assert tokenizer.endpoints == ["chat/completions"] * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"input": [{"type": "reasoning", "id": "r", "summary": []}]},
        {"tools": [{"type": "custom", "name": "patch"}]},
        {"tools": [{"type": "web_search"}]},
        {"previous_response_id": "resp_1"},
        {"input": 7},
    ],
    ids=["reasoning", "a tool of free text", "a hosted tool", "kept state", "malformed"],
)
def test_a_responses_call_that_its_engine_lays_out_otherwise_is_routed_by_its_text(fields):
    tokenizer = FakeTokenizer(None)

    assert decide(IndexReader(house_2=index_with_blocks()), tokenizer, responses(**fields))[1] == 0
    assert tokenizer.endpoints == ["responses"]


def test_messages_call_that_chat_cannot_hold_is_routed_by_its_text():
    request = replace_fields(call(b'{"model": "m", "messages": 7}'), endpoint=MESSAGES)
    tokenizer = FakeTokenizer(None)

    assert decide(IndexReader(house_2=index_with_blocks()), tokenizer, request)[1] == 0
    assert tokenizer.endpoints == [MESSAGES]


def test_without_events_or_a_choice_nothing_is_tokenized():
    tokenizer = FakeTokenizer()
    decide(IndexReader(), tokenizer, chat())
    decide(IndexReader(house_0=KvEventIndex("m", 10)), tokenizer, chat())
    decide(IndexReader(house_0=index_with_blocks()), tokenizer, chat(), STATUSES[:1])
    unhealthy = [replace(status, is_healthy=False) for status in STATUSES[1:]]
    decide(IndexReader(house_0=index_with_blocks()), tokenizer, chat(), [STATUSES[0], *unhealthy])

    assert tokenizer.base_urls == []


def test_a_prompt_that_was_not_tokenized_in_time_is_routed_by_its_text():
    assert decide(IndexReader(house_2=index_with_blocks()), FakeTokenizer(None), chat())[1] == 0
