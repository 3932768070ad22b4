"""A key that expired opens nothing, and one with a list of models opens these alone."""

from dataclasses import replace

import msgspec
import pytest

from proxy.api.key_limits import check_model_allowed, expired_error, is_model_allowed
from proxy.calls.ports import Dependencies
from proxy.catalog.model_aliases import ModelAliases
from tests.fakes.call_dependencies import KEY, call, fake_dependencies
from tests.fakes.refusals import refusing
from tests.fakes.upstream import FakeTransport

LIMITED = msgspec.structs.replace(KEY, models=frozenset({"small", "gpt-5.6"}))


def dependencies() -> Dependencies:
    deps, _ = fake_dependencies(FakeTransport(()))
    return deps


def asks(model: str = "", endpoint: str = "chat/completions", method: str = "POST") -> None:
    body = b'{"model": "%s"}' % model.encode() if model else b"{}"
    sent_call = call(body, endpoint, method=method, key=LIMITED)
    check_model_allowed(sent_call, dependencies().catalog)


def test_a_key_that_expired_says_when() -> None:
    key = msgspec.structs.replace(KEY, expires=1_790_000_000.0)
    assert [key.has_expired(moment) for moment in (1_789_999_999.9, 1_790_000_000.0)] == [
        False,
        True,
    ]
    assert not KEY.has_expired(1e12)

    error = expired_error(key)
    assert (error.status, error.code) == (401, "expired_api_key")
    assert "expired at 2026-09-21 14:13 UTC" in error.message


def test_a_model_of_the_list_is_allowed_and_any_other_refused_by_name() -> None:
    asks("small")
    with refusing(403, match=r"may ask for gpt-5\.6, small only, not large\. Use one of these"):
        asks("large")


@pytest.mark.parametrize("endpoint", ["batches", "responses", "audio/transcriptions"])
def test_a_call_that_names_no_model_may_use_any_and_is_refused(endpoint: str) -> None:
    with refusing(403, match="this call names none that the gateway reads"):
        asks(endpoint=endpoint)


def test_calls_that_generate_nothing_need_no_model_and_models_in_paths_count() -> None:
    asks(endpoint="batches/batch_1", method="GET")
    asks(endpoint="models/small", method="GET")
    with refusing(403, match="not large"):
        asks(endpoint="models/large", method="DELETE")


def test_a_dated_snapshot_of_a_listed_model_is_allowed() -> None:
    catalog = dependencies().catalog
    model = next(iter(catalog.models.values()))
    listed = replace(
        catalog, models={"gpt-5.6": model.__class__(id="gpt-5.6", routes=model.routes)}
    )

    assert is_model_allowed(LIMITED, "gpt-5.6-2026-03-05", listed)
    assert not is_model_allowed(LIMITED, "gpt-5.5-2026-03-05", listed)
    assert is_model_allowed(KEY, "anything", listed)


def test_of_an_alias_the_model_that_it_means_has_to_be_allowed() -> None:
    catalog = dependencies().catalog
    made = replace(catalog.models["m"], id="large")
    listed = replace(
        catalog,
        models={**catalog.models, "large": made, "small": replace(made, id="small")},
        aliases=ModelAliases({"small": "large", "claude": "small", "gpt-5.6": "gpt-5.6"}),
    )

    assert not is_model_allowed(LIMITED, "small", listed)
    assert is_model_allowed(LIMITED, "claude", listed)
    assert is_model_allowed(KEY, "small", listed)
    with refusing(403, match="not large, which small means for your team"):
        check_model_allowed(call(b'{"model": "small"}', key=LIMITED), listed)
