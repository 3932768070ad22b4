import pytest

from proxy.api.messages_api import MESSAGES_SPELLINGS, speaks_messages, with_messages_path
from tests.fakes.asgi import scope

VERSION = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("path", "headers", "usual"),
    [
        ("/messages", {}, "/v1/messages"),
        ("/v1/v1/messages", {}, "/v1/messages"),
        ("/v1/v1/messages/count_tokens", {}, "/v1/messages/count_tokens"),
        ("/v1/v1/models", VERSION, "/v1/models"),
        ("/v1/v1/models", {}, "/v1/v1/models"),
        ("/v1/v1/chat/completions", VERSION, "/v1/v1/chat/completions"),
        ("/messagesx", {}, "/messagesx"),
    ],
)
def test_anthropics_paths_are_known_with_the_version_once_twice_or_not_at_all(
    path: str, headers: dict[str, str], usual: str
) -> None:
    changed = with_messages_path(scope(path, headers=headers))

    assert path.startswith(MESSAGES_SPELLINGS)
    assert (changed["path"], changed["raw_path"]) == (usual, usual.encode())


def test_escapes_in_a_path_stay_for_whoever_checks_them() -> None:
    usual = with_messages_path(scope("/messages/a/../b", raw="/messages/a/%2e%2e/b"))

    assert usual["raw_path"] == b"/v1/messages/a/%2e%2e/b"


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/v1/messages", {}, True),
        ("/v1/messages/batches/b1", {}, True),
        ("/v1/models", VERSION, True),
        ("/v1/models", {}, False),
        ("/v1/chat/completions", VERSION, False),
        ("/v1/messagesx", {}, False),
    ],
)
def test_a_request_speaks_anthropics_api_by_its_path_or_its_version(
    path: str, headers: dict[str, str], *, expected: bool
) -> None:
    assert speaks_messages(scope(path, headers=headers)) is expected
