"""Recognises requests of Anthropic's API, and maps the paths that its clients use to one.

=============================  ======================  =========================
base URL of the client          path of its request     the gateway's
=============================  ======================  =========================
``http://gateway``              ``/v1/messages``        ``/v1/messages``
``http://gateway/v1``           ``/v1/v1/messages``     ``/v1/messages``
``http://gateway``, bare        ``/messages``           ``/v1/messages``
=============================  ======================  =========================

Anthropic's own SDKs put ``/v1`` before each path, other clients only where the base URL ends so.

Source: anthropic 2.11; Claude Code 2.1.197, captured calls (2026-11).
"""

import re
from typing import Final
from urllib.parse import unquote

from starlette.types import Scope

#: Header of every request of Anthropic's API, as a request's scope and as a call have it.
VERSION: Final = b"anthropic-version"
#: Beginnings of paths that may be spelt in another way.
MESSAGES_SPELLINGS: Final = ("/messages", "/v1/v1/")
#: Calls of OpenAI's API, whatever else stands in their headers.
_OPENAI_CALLS: Final = ("/v1/chat/", "/v1/responses", "/v1/completions", "/v1/embeddings")
_MESSAGES: Final = "/v1/messages"
#: Paths of Anthropic's API, however often the version precedes them.
_PATH: Final = re.compile(rb"/(?:v1/)*((?:messages|models|files)(?:/.*)?)", re.DOTALL)


def with_messages_path(scope: Scope) -> Scope:
    """The request's scope with the usual path of Anthropic's API; unmodified where it is no such.

    Args:
        scope: Of a request whose path begins with one of ``MESSAGES_SPELLINGS``.
    """
    raw = scope.get("raw_path") or scope["path"].encode()
    match = _PATH.fullmatch(raw)
    if match is None or not (match[1].startswith(b"messages") or _has_version(scope)):
        return scope
    usual = b"/v1/" + match[1]
    return {**scope, "path": unquote(usual.decode("latin-1")), "raw_path": usual}


def speaks_messages(scope: Scope) -> bool:
    """True if a request is one of Anthropic's API, so that errors come in its envelope."""
    path: str = scope["path"]
    if path.startswith(_OPENAI_CALLS):
        return False
    return path == _MESSAGES or path.startswith(f"{_MESSAGES}/") or _has_version(scope)


def _has_version(scope: Scope) -> bool:
    return any(name == VERSION for name, _ in scope["headers"])
