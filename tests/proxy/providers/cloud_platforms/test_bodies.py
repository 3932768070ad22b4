"""Bodies of the Messages API in the form of a cloud."""

import orjson
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.providers.cloud_platforms.bodies import CloudForm, cloud_request, served_model
from proxy.records.request_fields import parse_request_fields
from tests.fakes.call_dependencies import call
from tests.fakes.refusals import refusing

FORM = CloudForm(
    title="Cloud",
    version=b'"cloud-1"',
    without=("model",),
    betas_in_body=True,
    places_marks=True,
)
MARK = {"type": "ephemeral", "ttl": "1h"}


def cloud_form(body, betas="", form=FORM, always=None, features=("a", "b")):
    headers = {"anthropic-beta": betas} if betas else {}
    return cloud_request(body, headers, form, always or {}, features)


def messages_request(**fields):
    turn = {"role": "user", "content": "Hi"}
    return orjson.dumps({"model": "m", "max_tokens": 9, "messages": [turn], **fields})


def test_all_but_the_model_is_the_callers_byte_for_byte():
    turns = b'"messages":[{"role":"user", "content":"\\u00e9"}]'
    body = b'{"model":"m","max_tokens":9,"x":[1.0e2],' + turns + b"}"
    sent = b'{"max_tokens":9,"x":[1.0e2],' + turns + b',"anthropic_version":"cloud-1"}'

    assert cloud_form(body).body == sent


@pytest.mark.parametrize("field", ["service_tier", "speed", "diagnostics"])
def test_fields_that_change_no_answer_are_left_out_with_a_note(field):
    sent = cloud_form(messages_request(**{field: "x"}))

    assert field not in orjson.loads(sent.body)
    assert sent.notes == (f"left out {field}: Cloud does not take it",)


def test_fields_that_say_nothing_are_left_out_without_a_note():
    sent = cloud_form(messages_request(service_tier=None, container=None))

    assert "service_tier" not in orjson.loads(sent.body)
    assert sent.notes == ()


@pytest.mark.parametrize("field", ["container", "thread", "mcp_servers", "inference_geo"])
def test_fields_that_would_change_an_answer_are_refused_by_name(field):
    with refusing(400, f"`{field}` works at Anthropic's own API alone") as caught:
        cloud_form(messages_request(**{field: "x"}))

    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", field)


def test_of_the_callers_betas_those_that_the_cloud_takes_go_into_the_body():
    sent = cloud_form(messages_request(), "a, c,b,a")

    assert orjson.loads(sent.body)["anthropic_beta"] == ["a", "b"]
    assert sent.headers == {"content-type": "application/json"}
    assert sent.notes == ("left out c: no beta feature that Cloud takes",)


def test_the_operators_betas_are_sent_whatever_they_are():
    sent = cloud_form(messages_request(), "o,a", always={"Anthropic-Beta": "o"})

    assert orjson.loads(sent.body)["anthropic_beta"] == ["o", "a"]
    assert sent.notes == ()


def test_betas_stand_in_the_header_where_the_cloud_reads_them_there():
    form = CloudForm(title="Cloud", version=b'"v"', without=("model",))
    sent = cloud_form(messages_request(), "a,c", form)
    every = cloud_form(messages_request(), "a,c", form, features=None)

    assert sent.headers["anthropic-beta"] == "a"
    assert every.headers["anthropic-beta"] == "a,c"
    assert "anthropic_beta" not in orjson.loads(sent.body)


def test_a_beta_goes_by_the_name_that_the_cloud_knows():
    sent = cloud_form(
        messages_request(), "advanced-tool-use-2025-11-20", features=["tool-search-tool-2025-10-19"]
    )

    assert orjson.loads(sent.body)["anthropic_beta"] == ["tool-search-tool-2025-10-19"]


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ("Hi", [{"type": "text", "text": "Hi", "cache_control": MARK}]),
        (
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": MARK}],
        ),
        (
            [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "t"}],
            [
                {"type": "text", "text": "a", "cache_control": MARK},
                {"type": "thinking", "thinking": "t"},
            ],
        ),
    ],
)
def test_a_mark_at_the_top_is_set_on_the_last_block_that_takes_one(content, written):
    turns = [{"role": "user", "content": "first"}, {"role": "user", "content": content}]
    body = orjson.loads(cloud_form(messages_request(messages=turns, cache_control=MARK)).body)

    assert "cache_control" not in body
    assert body["messages"] == [turns[0], {"role": "user", "content": written}]


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
        [{"type": "thinking", "thinking": "t"}],
        [],
        7,
    ],
)
def test_a_mark_at_the_top_that_fits_nowhere_is_left_out_with_a_note(content):
    turns = [{"role": "user", "content": content}]
    sent = cloud_form(messages_request(messages=turns, cache_control=MARK))

    assert orjson.loads(sent.body)["messages"] == turns
    assert sent.notes[0].startswith("left out cache_control at the top")


def test_a_mark_at_the_top_is_left_out_beside_four_others():
    block = {"type": "text", "text": "a", "cache_control": MARK}
    turn = {"role": "user", "content": "So?"}
    sent = cloud_form(messages_request(system=[block] * 4, messages=[turn], cache_control=MARK))

    assert orjson.loads(sent.body)["messages"] == [turn]
    assert sent.notes


def test_a_mark_at_the_top_stays_where_the_cloud_takes_it():
    form = CloudForm(title="Cloud", version=b'"v"', without=())

    assert (
        orjson.loads(cloud_form(messages_request(cache_control=MARK), form=form).body)[
            "cache_control"
        ]
        == MARK
    )


ROUTE = Route(
    name="up/m", upstream=Upstream(name="up", kind="anthropic-vertex", base_url="http://up")
)


def test_the_model_is_the_routes_name_for_it_else_the_callers():
    body = messages_request()
    cloud_call = call(body, "messages", fields=parse_request_fields(body))
    named = Route(name="up/m", upstream=ROUTE.upstream, model="theirs")

    assert served_model(cloud_call, named, FORM) == "theirs"
    assert served_model(cloud_call, ROUTE, FORM) == "m"


@pytest.mark.parametrize(
    ("method", "endpoint"),
    [
        ("POST", "messages/batches"),
        ("GET", "messages/batches/b1"),
        ("POST", "files"),
        ("GET", "models/m"),
        ("POST", "embeddings"),
        ("GET", "messages"),
    ],
)
def test_calls_that_the_cloud_has_not_are_refused_in_one_sentence(method, endpoint):
    cloud_call = call(b"{}", endpoint, method=method)
    with refusing(400, f"takes no /v1/{endpoint} from here") as caught:
        served_model(cloud_call, ROUTE, FORM)

    assert caught.value.code == "unsupported_endpoint"


def test_a_call_without_a_model_is_refused():
    cloud_call = call(b"{}", "messages", fields=parse_request_fields(b"{}"))

    with refusing(400, "Name a model"):
        served_model(cloud_call, ROUTE, FORM)
