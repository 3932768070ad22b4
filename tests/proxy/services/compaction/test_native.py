import orjson
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.records.call import Call
from proxy.records.compaction_settings import FeatureSettings
from proxy.services.compaction.native import native
from tests.fakes.desk import call as made

_TOOL = {"role": "tool", "tool_call_id": "a", "content": "…"}


def route(kind: str, provider: str) -> Route:
    upstream = Upstream(
        name="there",
        kind=kind,  # type: ignore[arg-type]
        base_url="http://there",
        provider=provider,
    )
    return Route(name="there/m", upstream=upstream)


def asked(endpoint: str, body: object) -> Call:
    return made(orjson.dumps(body), endpoint)


def test_openai_is_asked_to_compact_responses():
    came = asked("responses", {"input": "hello"})

    found = native(came, route("openai", "openai"), FeatureSettings(target=50_000), is_dry=False)

    assert found.sent is not None
    held = orjson.loads(found.sent.body)["context_management"]
    assert held == [{"type": "compaction", "compact_threshold": 50_000}]
    assert not found.is_folded
    assert found.header == "as it came; reason=asked"


def test_anthropic_is_asked_to_clear_old_results():
    came = asked("chat/completions", {"messages": [{"role": "user", "content": "a"}, _TOOL]})

    found = native(
        came, route("anthropic", "anthropic"), FeatureSettings(keep_turns=5), is_dry=False
    )

    assert found.sent is not None
    edit = orjson.loads(found.sent.body)["context_management"]["edits"][0]
    assert edit["trigger"]["value"] == 100_000
    assert edit["keep"]["value"] == 5


@pytest.mark.parametrize("endpoint", ["responses", "chat/completions"])
def test_others_go_as_they_came_and_it_is_said_why(endpoint: str):
    found = native(
        asked(endpoint, {}), route("openai", "deepseek"), FeatureSettings(), is_dry=False
    )

    assert found.sent is None
    assert found.why == "native"
    assert "no compaction of its own" in found.notes[0]


def test_a_dry_run_asks_nobody():
    found = native(
        asked("responses", {"input": "a"}),
        route("openai", "openai"),
        FeatureSettings(),
        is_dry=True,
    )

    assert found.sent is None
    assert found.why == "dry_run"
