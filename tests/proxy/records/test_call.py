import msgspec
import pytest

from tests.fakes.call_dependencies import call


def test_a_call_tells_what_its_body_asks():
    one = call(b'{"model":"m","stream":true,"user":"u"}')

    assert (one.model, one.is_streaming, one.end_user) == ("m", True, "u")


def test_a_call_whose_body_is_not_for_us_asks_nothing():
    one = call(b"\x00\x01", fields=None)

    assert (one.model, one.is_streaming, one.end_user) == ("", False, "")


@pytest.mark.parametrize(
    ("method", "endpoint", "name"),
    [
        ("DELETE", "models/ft%3Am%3Aacme%3A%3Aabc", "ft:m:acme::abc"),
        ("DELETE", "models/org/m", "org/m"),
        ("GET", "models/org/m", "org/m"),
        ("GET", "models", ""),
        ("DELETE", "files/f", ""),
        ("POST", "models/m", ""),
    ],
)
def test_a_call_about_a_model_names_it_in_its_path(method, endpoint, name):
    assert call(b"", endpoint, method=method, fields=None).path_model == name


def test_a_call_is_never_changed():
    with pytest.raises(AttributeError):
        call(b"{}").body = b""  # type: ignore[misc]


def test_a_call_without_a_wish_for_a_stream_gets_none():
    assert not call(b'{"stream":null}').is_streaming
    assert not msgspec.structs.replace(call(b"{}"), method="GET").is_streaming


def test_a_conversation_has_a_name_only_where_its_caller_gives_one():
    assert call(b"{}").conversation == ""
    assert call(b"{}", conversation="c-1").conversation == "c-1"


@pytest.mark.parametrize(
    ("body", "endpoint", "expected"),
    [
        (b'{"background":true}', "responses", True),
        (b'{"background":false}', "responses", False),
        (b'{"background":null}', "responses", False),
        (b"{}", "responses", False),
        (b'{"background":"transparent"}', "images/generations", False),
    ],
)
def test_a_call_is_in_the_background_where_the_responses_api_is_asked_so(body, endpoint, expected):
    assert call(body, endpoint).is_background is expected
    assert not call(body, endpoint, fields=None).is_background


def test_only_the_responses_api_has_tools_that_its_provider_runs():
    body = b'{"tools":[{"type":"web_search"}]}'

    assert call(body, "responses").offers_hosted
    assert not call(body).offers_hosted
    assert not call(body, "responses", fields=None).offers_hosted
