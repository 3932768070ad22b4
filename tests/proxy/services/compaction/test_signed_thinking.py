import pytest

from compaction.policy import CompactionPolicy
from proxy.catalog.entries import Route, Upstream
from proxy.records.request_fields import parse_request_fields
from proxy.services.compaction.signed_thinking import with_thinking_rules


def route(kind: str = "anthropic", *traits: str, provider: str = "") -> Route:
    upstream = Upstream(name="there", kind=kind, base_url="http://there", provider=provider)  # type: ignore[arg-type]
    return Route(name="there/m", upstream=upstream, traits=frozenset(traits))


def rules(body: bytes, to: Route) -> tuple[bool, bool]:
    policy = with_thinking_rules(CompactionPolicy(), body, to)
    return policy.drops_signed, policy.thinks


@pytest.mark.parametrize(
    ("body", "thinks"),
    [
        (b"{}", True),
        (b'{"reasoning_effort":null}', True),
        (b'{"reasoning_effort":"none"}', False),
        (b'{"reasoning_effort":"low"}', True),
        (b'{"thinking":{"type":"adaptive"}}', True),
        (b'{"thinking":{"type":"disabled"},"reasoning_effort":"high"}', False),
        (b'{"thinking":7}', True),
        (b"[" * 100_000, True),
    ],
)
def test_a_model_that_binds_its_thinking_thinks_unless_told_not_to(body: bytes, thinks: bool):  # noqa: FBT001
    bound = route("anthropic", "bound_thinking")

    assert rules(body, bound) == (False, thinks)
    if not body.startswith(b"["):
        assert rules(parse_request_fields(body).thinking_body, bound) == (False, thinks)


def test_a_model_that_always_thinks_cannot_be_told_not_to():
    always = route("anthropic", "bound_thinking", "always_thinking")

    assert rules(b'{"thinking":{"type":"disabled"}}', always) == (False, True)


@pytest.mark.parametrize(
    ("to", "drops"),
    [
        (route("anthropic", "always_thinking"), True),
        (route("gemini"), True),
        (route("openai", provider="openai"), True),
        (route("openai", provider="some-other"), False),
        (route("openai", "bound_thinking", provider="some-other"), False),
    ],
)
def test_closed_turns_may_go_where_the_provider_says_so(to: Route, drops: bool):  # noqa: FBT001
    assert rules(b'{"reasoning_effort":"high"}', to) == (drops, False)
