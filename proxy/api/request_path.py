"""The path of a request: the gateway's own spelling of it, and what it asks for below ``/v1/``."""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from starlette.types import Scope

from proxy.api.azure import AZURE_PREFIX, as_openai
from proxy.api.isolation import SELF_CONTAINED
from proxy.api.messages_api import MESSAGES_SPELLINGS, with_messages_path
from proxy.errors import CallerError
from proxy.records.call import MODELS_PREFIX

#: Beginnings of paths that clients spell in other ways than the gateway; so do those with ``//``.
OTHER_SPELLINGS: Final = (AZURE_PREFIX, *MESSAGES_SPELLINGS, "/v1/models")
_SLASHES: Final = re.compile(rb"//+")
#: Paths that are remembered; most callers send the same few.
_MAX_CACHED_PATHS: Final = 64
#: The first step of a path decides who may go there, so it must be plain.
_FIRST_STEP: Final = re.compile(r"[a-z0-9_-]+(?=/|\Z)")
#: The prefix of all paths, said once more.
_DOUBLED_PREFIX: Final = re.compile(r"(?:v1/)+")
#: Ways to leave a path that an upstream might follow, and escapes that are none.
_PATH_ESCAPES: Final = re.compile(
    r"\.\.|/\.?/|/\.\Z|\\|%2e|%2f|%5c|%(?![0-9a-f]{2})", re.IGNORECASE
)
#: Escapes of what needs none: letters, digits, - . _ ~. Source: RFC 3986, section 2.3.
_NEEDLESS_ESCAPES: Final = re.compile(r"%(?:2[de]|3\d|[46][1-9a-f]|[57][\da]|5f|7e)", re.IGNORECASE)
#: Characters after which some servers drop the rest of a path segment: parameters, spaces, control
#: characters.
_DROPPED_SUFFIX: Final = re.compile(r"[;%][^/]*")


def with_usual_path(scope: Scope) -> Scope:
    """The request's scope with the gateway's own spelling of its path.

    Base URLs that end in a slash double it, and some clients end the list of models in one.
    """
    raw = scope.get("raw_path") or scope["path"].encode()
    single = _SLASHES.sub(b"/", raw)
    if single.startswith(b"/v1/models"):
        single = single.rstrip(b"/")
    if single != raw:
        scope = {**scope, "path": unquote(single.decode("latin-1")), "raw_path": single}
    if single.startswith(AZURE_PREFIX.encode()):
        return as_openai(scope)
    return with_messages_path(scope) if scope["path"].startswith(MESSAGES_SPELLINGS) else scope


@lru_cache(maxsize=_MAX_CACHED_PATHS)
def endpoint_of(path: bytes) -> str:
    """The path below /v1/: of those we know the usual spelling, else unmodified."""
    endpoint = path.decode("latin-1")[len("/v1/") :]
    if endpoint.startswith(MODELS_PREFIX):  # SDKs escape the slashes of a model's name
        endpoint = endpoint.replace("%2F", "/").replace("%2f", "/")
    spelt = _NEEDLESS_ESCAPES.sub(lambda match: chr(int(match[0][1:], 16)), endpoint)
    if (
        not path.startswith(b"/v1/")
        or _PATH_ESCAPES.search(endpoint)
        or _PATH_ESCAPES.search(spelt)
    ):
        raise CallerError("This path leads nowhere.", code="not_found", status=404)
    if (usual := spelt.removesuffix("/").lower()) in SELF_CONTAINED:
        return usual
    if (likely := _DROPPED_SUFFIX.sub("", usual).rstrip("/")) in SELF_CONTAINED:
        raise CallerError(
            f"There is no path /v1/{endpoint[:100]}; did you mean /v1/{likely}?",
            code="unknown_path",
            status=404,
        )
    if not _FIRST_STEP.match(endpoint):
        raise CallerError("This path leads nowhere.", code="not_found", status=404)
    if twice := _DOUBLED_PREFIX.match(endpoint):
        raise CallerError(
            f"There is no path /v1/{endpoint[:100]}. The client's base_url ends in /v1 already;"
            f" did you mean /v1/{endpoint[twice.end() :][:100]}?",
            code="unknown_path",
            status=404,
        )
    return endpoint
