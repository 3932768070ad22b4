import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.records.request_fields import parse_request_fields
from proxy.services.compaction.signed_thinking import may_sign_thinking


def route(kind: str = "anthropic", *traits: str) -> Route:
    upstream = Upstream(name="there", kind=kind, base_url="http://there")  # type: ignore[arg-type]
    return Route(name="there/m", upstream=upstream, traits=frozenset(traits))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", False),
        (b'{"reasoning_effort":null}', False),
        (b'{"reasoning_effort":"none"}', False),
        (b'{"reasoning_effort":"low"}', True),
        (b'{"thinking":{"type":"enabled","budget_tokens":2000}}', True),
        (b'{"thinking":{"type":"adaptive"}}', True),
        (b'{"thinking":{"type":"disabled"},"reasoning_effort":"high"}', False),
        (b'{"thinking":7}', True),
        (b"[" * 100_000, True),
        (b'{"messages":[{"role":"user","content":"\\"thinking\\": on"}]}', False),
        (b'{"messages":[{"content":[{"type":"thinking"}]}]}', False),
    ],
)
def test_a_call_thinks_where_it_asks_for_it(body: bytes, expected: bool):  # noqa: FBT001
    assert may_sign_thinking(body, route()) is expected
    if not body.startswith(b"["):
        assert may_sign_thinking(parse_request_fields(body).thinking_body, route()) is expected


def test_models_that_always_think_are_recognised():
    assert may_sign_thinking(
        b'{"thinking":{"type":"disabled"}}', route("anthropic", "always_thinking")
    )


def test_models_of_other_providers_sign_no_thinking():
    assert not may_sign_thinking(b'{"reasoning_effort":"high"}', route("openai", "always_thinking"))
