import pytest
from starlette.types import Scope

from proxy.api.azure import DEPLOYMENT, as_openai, of_deployment
from tests.fakes.asgi import scope
from tests.fakes.call_dependencies import call
from tests.fakes.endpoint_harness import EndpointHarness, endpoint_refusal

CHAT = "/openai/deployments/m/chat/completions"


def said(sent: Scope) -> tuple[str, bytes, bytes, str]:
    made = as_openai(sent)
    return made["path"], made["raw_path"], made["query_string"], made.get(DEPLOYMENT, "")


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (CHAT, "api-version=2024-10-21", ("/v1/chat/completions", b"", "m")),
        ("/openai/v1/chat/completions", "", ("/v1/chat/completions", b"", "")),
        ("/openai/responses", "a=1&api-version=x&b=2", ("/v1/responses", b"a=1&b=2", "")),
        ("/openai/deployments/org%2Fm%20x/embeddings", "", ("/v1/embeddings", b"", "org/m x")),
        ("/openai/models", "api-version=x", ("/v1/models", b"", "")),
        ("/openai/deployments", "", ("/v1/deployments", b"", "")),
    ],
)
def test_an_azure_path_is_said_in_openais(path, query, expected):
    openai_path, raw, query_sent, deployment = said(scope(path, query=query))

    assert (openai_path, query_sent, deployment) == expected
    assert raw == openai_path.encode()


def test_escapes_of_the_rest_of_a_path_stay_for_whoever_checks_them():
    assert said(scope("/openai/v1/a/../b", raw="/openai/v1/a/%2e%2e/b"))[1] == b"/v1/a/%2e%2e/b"
    assert endpoint_refusal(path="/openai/v1/chat/../files") == (404, "not_found", None)


def test_the_deployment_is_the_model_whatever_the_body_says():
    same = call(b'{"model":"m" }')

    assert of_deployment(same, "m") is same
    assert of_deployment(same, "") is same
    assert of_deployment(call(b'{"model":"n","n":1}'), "m").body == b'{"model":"m","n":1}'
    assert of_deployment(call(b'{"n":1}'), "m").body == b'{"n":1,"model":"m"}'


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model":5}', b"--form--"])
def test_a_body_that_is_no_object_is_left_as_it_is(body):
    sent_call = call(body, fields=None)

    assert of_deployment(sent_call, "m") is sent_call


@pytest.mark.parametrize("path", [CHAT, "/openai/v1/chat/completions"])
def test_an_azure_call_goes_to_the_model_and_is_metered(path):
    harness = EndpointHarness()
    body = b'{"messages":[]}' if path == CHAT else b'{"model":"m","messages":[]}'
    key = {"authorization": "", "api-key": "tg-1"}
    answered = harness.ask(body, path=path, query="api-version=2024-10-21", headers=key)

    assert answered.status == 200
    ((_, prepared),) = harness.transport.sent
    assert prepared.path == "/chat/completions"
    assert (harness.receipts[0].model, harness.receipts[0].endpoint) == ("m", "chat/completions")
    assert harness.receipts[0].cost_nanos


def test_an_azure_path_of_models_goes_to_the_pages():
    assert EndpointHarness().ask(path="/openai/models", method="GET").body == b"pages"


def form(model: str) -> bytes:
    field = f'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n'
    file = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n'
    return f"{field}{file}--b--\r\n".encode()


FORM = {"content-type": "multipart/form-data; boundary=b"}


@pytest.mark.parametrize("endpoint", ["audio/transcriptions", "audio/translations", "images/edits"])
def test_a_form_goes_to_the_deployment_of_its_path_whatever_it_says(endpoint):
    harness = EndpointHarness()
    answered = harness.ask(form("x"), path=f"/openai/deployments/m/{endpoint}", headers=FORM)

    assert answered.status == 200
    ((name, prepared),) = harness.transport.sent
    assert (name, prepared.path, prepared.body) == ("one", f"/{endpoint}", form("m"))
    assert (harness.receipts[0].model, harness.receipts[0].endpoint) == ("m", endpoint)


def test_a_form_without_a_deployment_goes_unmodified():
    harness = EndpointHarness()
    harness.ask(form("m"), path="/openai/v1/audio/transcriptions", headers=FORM)

    ((name, prepared),) = harness.transport.sent
    assert (name, prepared.body) == ("default", form("m"))


@pytest.mark.parametrize("deployment", ["m%0D%0Ax", "x" * 600])
def test_a_deployment_that_no_model_is_called_is_refused_with_a_form(deployment):
    path = f"/openai/deployments/{deployment}/audio/transcriptions"

    assert endpoint_refusal(form("m"), path=path, headers=FORM)[0] == 400
