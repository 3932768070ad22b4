"""Azure OpenAI's paths, for clients that are made for Azure: the same calls in OpenAI's paths.

==============================================  ==================  ================
Azure's path                                    the gateway's       the call's model
==============================================  ==================  ================
``/openai/deployments/{name}/chat/completions``  ``/v1/…``           the deployment
``/openai/v1/chat/completions``                  ``/v1/…``           the body's
``/openai/responses``                            ``/v1/…``           the body's
==============================================  ==================  ================

A form (``audio/transcriptions``) gets the deployment as its field ``model``, as JSON does.
``api-version`` is Azure's own: it is left out, for the upstream may be another's.

Source: Azure OpenAI, REST API reference and API version lifecycle (2026-11); openai 3.52,
``AzureOpenAI``.
"""

import re
from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.types import Scope

from proxy.errors import CallerError
from proxy.providers.multipart import is_form, with_model
from proxy.records.call import Call
from proxy.records.request_fields import parse_request_fields, replace_fields

#: Beginnings of Azure's paths.
AZURE_PREFIX: Final = "/openai/"
#: Under which a request's scope names its deployment.
DEPLOYMENT: Final = "thriftgate.deployment"
_PATH: Final = re.compile(rb"/openai/(?:v1/|deployments/([^/]+)/)?(.*)", re.DOTALL)
_VERSION: Final = b"api-version="


def as_openai(scope: Scope) -> Scope:
    """The request's scope with OpenAI's path, and with its deployment where the path names one."""
    raw = scope.get("raw_path") or scope["path"].encode()
    match = _PATH.fullmatch(raw)
    if match is None:
        return scope
    path = b"/v1/" + match[2]
    query = [part for part in scope["query_string"].split(b"&") if not part.startswith(_VERSION)]
    return {
        **scope,
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": b"&".join(query),
        DEPLOYMENT: unquote((match[1] or b"").decode("latin-1")),
    }


def of_deployment(call: Call, deployment: str) -> Call:
    """The call with the deployment as its model, for Azure goes by its path alone.

    A body that is neither a JSON object nor a form is left as it is.

    Raises:
        CallerError: If the deployment can be no model's name in a form.
    """
    content_type = call.headers.get("content-type", "")
    if deployment and is_form(content_type):
        if not deployment.isprintable():
            raise CallerError(
                "The deployment in the path is no model's name.",
                code="invalid_model",
                param="model",
            )
        body = with_model(call.body, content_type, deployment)
        return msgspec.structs.replace(call, body=body)
    try:
        if not deployment or parse_request_fields(call.body).model == deployment:
            return call
    except CallerError:
        return call
    body = replace_fields(call.body, {"model": msgspec.json.encode(deployment)})
    return msgspec.structs.replace(call, body=body)
