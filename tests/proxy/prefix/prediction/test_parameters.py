from proxy.prefix.prediction.parameters import prefix_parameters
from proxy.prefix.prompts.prompt import parse_prompt
from tests.proxy.prefix.sendings import ANTHROPIC, OPENAI, VLLM, fingerprint

BODY = b"""{"model": "m", "messages": [], "temperature": 1, "reasoning_effort": "low",
"verbosity": null, "tool_choice": "auto", "prompt_cache_key": "k"}"""


def test_what_openai_takes_into_the_prefix():
    found = prefix_parameters(parse_prompt(BODY), OPENAI, fingerprint)

    assert set(found.early) == {"model", "prompt_cache_key", "reasoning_effort"}
    assert found.late == {}


def test_a_tool_choice_shapes_anthropics_messages_only():
    found = prefix_parameters(parse_prompt(BODY), ANTHROPIC, fingerprint)

    assert set(found.early) == {"model", "reasoning_effort"}
    assert set(found.late) == {"tool_choice"}


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


def test_what_openai_takes_into_the_prefix_of_a_response():
    raw = (
        b'{"input": "x", "reasoning": {"effort": "low", "summary": "auto"}, "text": {"format":'
        b' {"type": "text"}, "verbosity": null}, "prompt_cache_key": "k", "model": "m"}'
    )
    found = prefix_parameters(parse_prompt(raw), OPENAI, fingerprint)

    assert set(found.early) == {"model", "prompt_cache_key", "reasoning.effort", "text.format"}


def test_a_parameter_of_another_shape_says_nothing():
    found = prefix_parameters(
        parse_prompt(b'{"input": "x", "reasoning": "low"}'), OPENAI, fingerprint
    )

    assert set(found.early) == {"model"}
