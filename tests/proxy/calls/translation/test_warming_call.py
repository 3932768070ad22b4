import json

import msgspec
import pytest

from proxy.calls.translation.warming_call import warming_call
from tests.fakes.call_dependencies import call

CHAT = {
    "model": "house-llm",
    "messages": [{"role": "user", "content": "Tell me"}],
    "max_completion_tokens": 900,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def warming_call_for(body, endpoint):
    return warming_call(
        msgspec.structs.replace(call(json.dumps(body).encode(), endpoint), feature="chat")
    )


def test_chat_prompt_is_warmed_by_a_call_for_one_token_of_a_feature_of_its_own():
    warming = warming_call_for(CHAT, "chat/completions")

    assert json.loads(warming.body) == {
        "model": "house-llm",
        "messages": CHAT["messages"],
        "max_tokens": 1,
        "stream": False,
    }
    assert warming.feature == "warming:chat"
    assert not warming.is_streaming


def test_responses_prompt_is_warmed_by_a_call_that_the_engine_does_not_store():
    body = {"model": "house-llm", "input": "Tell me", "instructions": "Be brief."}
    warming = warming_call_for({**body, "background": True, "stream": True}, "responses")

    assert json.loads(warming.body) == {
        **body,
        "max_output_tokens": 1,
        "store": False,
        "stream": False,
    }


@pytest.mark.parametrize("endpoint", ["chat/completions", "messages"])
def test_warming_call_asks_for_one_token_at_either_endpoint_that_takes_messages(endpoint):
    assert (
        json.loads(warming_call_for({**CHAT, "system": "Be brief."}, endpoint).body)["max_tokens"]
        == 1
    )
