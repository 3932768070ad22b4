"""Tests of what every wire and every reader must do; what only one does is in its own tests."""

import pytest

from proxy.catalog.entries import Route
from proxy.errors import UpstreamError
from proxy.providers.kinds import WIRES
from proxy.providers.port import PreparedRequest, Wire
from tests.fakes.answers import ASKED, STREAMED
from tests.fakes.call_dependencies import call, route

STATUSES = [400, 401, 403, 404, 408, 409, 413, 418, 422, 429, 500, 502, 503, 504, 529]


@pytest.fixture(params=sorted(WIRES))
def there(request: pytest.FixtureRequest) -> Route:
    return route("up", kind=request.param, model="theirs")


@pytest.fixture
def wire(there: Route) -> Wire:
    return WIRES[there.upstream.kind]


@pytest.mark.parametrize("body", [ASKED, STREAMED])
def test_a_request_is_the_same_each_time_and_leaves_the_call_alone(wire, there, body):
    given = call(body)
    first, second = (wire.request(given, there) for _ in range(2))

    assert (first.method, first.path, first.headers, first.body, first.notes) == (
        second.method,
        second.path,
        second.headers,
        second.body,
        second.notes,
    )
    assert first.path.startswith("/")
    assert given.body == body


def test_each_attempt_has_a_reader_of_its_own(wire, there):
    readers = [wire.request(call(STREAMED), there).reader for _ in range(2)]

    assert readers[0] is not readers[1]


def test_no_request_carries_the_callers_key(wire, there):
    prepared = wire.request(call(ASKED), there)

    assert not {"authorization", "api-key", "x-api-key"} & {n.lower() for n in prepared.headers}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(
    "body", [b"", b"<html>sk-verysecret123</html>", b'{"error":"no"}', b"\xff", b"[" * 10_000]
)
def test_a_failure_is_reported_whatever_its_body_is(wire, status, body):
    failure = wire.failure(status, {"retry-after": "3"}, body)

    assert isinstance(failure, UpstreamError)
    assert 400 <= failure.status < 600
    assert failure.message
    assert failure.code
    assert "secret" not in failure.message
    assert failure.retry_after == 3.0


@pytest.mark.parametrize("reported", [{}, {"x": 1}, {"prompt_tokens": "many"}])
def test_a_usage_object_without_counts_is_no_usage(wire, reported):
    assert wire.usage(reported) is None


def test_a_prepared_request_cannot_be_changed():
    prepared = PreparedRequest(method="GET", path="/", headers={}, body=b"")
    with pytest.raises(AttributeError):
        prepared.body = b"x"  # type: ignore[misc]
