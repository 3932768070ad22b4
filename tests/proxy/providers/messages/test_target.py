"""The chat form that a route's upstream takes."""

import msgspec
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.providers.messages.target import ChatTarget, chat_target
from tests.fakes.messages_calls import Json


def _route(provider: str, **fields: object) -> Route:
    upstream = Upstream(name="u", kind="openai", base_url="https://u.test/v1", provider=provider)
    return Route(name="u/m", upstream=upstream, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("provider", "fields", "differs"),
    [
        ("openai", {}, {"max_stops": 4, "ids": "short", "user_field": "safety_identifier"}),
        ("azure", {}, {"max_stops": 4, "ids": "short", "user_field": "safety_identifier"}),
        ("", {}, {"thinking": "text", "max_stops": None}),
        ("deepseek", {"traits": frozenset({"max_tokens", "stop"})},
         {"thinking": "text", "plain_text": True, "max_stops": 4}),
        ("deepseek", {"traits": frozenset({"max_tokens"}), "regime": "prefix-unit"},
         {"thinking": "text", "plain_text": True, "max_stops": 0, "takes_marks": False}),
        ("google", {"traits": frozenset({"max_tokens", "stop"})},
         {"takes_call_extras": True, "max_stops": 4}),
        ("mistral", {"traits": frozenset({"max_tokens", "stop"})}, {"ids": "nine", "max_stops": 4}),
        ("x", {"traits": frozenset({"max_tokens"}), "max_output": 7},
         {"max_stops": 0, "max_output": 7}),
        ("x", {"traits": frozenset({"max_tokens"}), "regime": "implicit"},
         {"max_stops": 0, "takes_marks": True}),
        ("x", {"traits": frozenset({"max_tokens"}), "can": frozenset({"tools"})},
         {"max_stops": 0, "sees": False}),
        ("x", {"traits": frozenset({"max_tokens"}), "can": frozenset({"vision"})},
         {"max_stops": 0}),
        ("x", {"regime": "anthropic-breakpoint"},
         {"thinking": "blocks", "takes_extras": True, "takes_marks": True, "max_stops": None}),
    ],
)  # fmt: skip
def test_the_form_follows_the_provider_its_cache_and_the_traits(
    provider: str, fields: Json, differs: Json
) -> None:
    usual = msgspec.structs.replace(ChatTarget(), takes_marks="regime" in fields)

    assert chat_target(_route(provider, **fields)) == msgspec.structs.replace(usual, **differs)


def test_googles_native_api_gets_back_what_it_attached_to_calls() -> None:
    upstream = Upstream(name="u", kind="gemini", base_url="https://u.test/v1beta")
    route = Route(name="u/m", upstream=upstream, regime="implicit", max_output=7)

    assert chat_target(route) == ChatTarget(takes_call_extras=True, max_output=7, max_stops=5)


def test_the_operator_decides_about_tools_that_only_anthropic_runs() -> None:
    assert not chat_target(_route("openai")).drops_server_tools
    assert chat_target(_route("openai"), drops_server_tools=True).drops_server_tools
