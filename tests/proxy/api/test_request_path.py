"""Paths as clients spell them; ``test_request.py`` has those that a call's head names."""

from urllib.parse import unquote

import pytest

from proxy.api.request_path import _NEEDLESS_ESCAPES, with_usual_path
from tests.fakes.asgi import scope


@pytest.mark.parametrize(
    ("path", "usual"),
    [
        ("/v1//chat/completions", "/v1/chat/completions"),
        ("//v1/chat//completions", "/v1/chat/completions"),
        ("/v1/models/", "/v1/models"),
        ("/v1/models//gpt-5/", "/v1/models/gpt-5"),
        ("/v1/models/a%2F%2Fb", "/v1/models/a//b"),
        ("//openai/deployments/d/chat/completions", "/v1/chat/completions"),
        ("/v1//v1/messages", "/v1/messages"),
        ("/admin//costs", "/admin/costs"),
    ],
)
def test_doubled_slashes_and_one_behind_the_models_are_left_out_of_a_path(path, usual):
    assert with_usual_path(scope(unquote(path), raw=path))["path"] == usual


def test_text_without_escapes_is_read_without_decoding():
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~"
    for letter in plain:
        for one in (f"%{ord(letter):02x}", f"%{ord(letter):02X}"):
            assert _NEEDLESS_ESCAPES.fullmatch(one)
    needless = [byte for byte in range(256) if _NEEDLESS_ESCAPES.fullmatch(f"%{byte:02x}")]
    assert bytes(needless).decode() == "".join(sorted(plain + "."))
