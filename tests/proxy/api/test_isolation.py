from pathlib import Path

import pytest

from proxy.api.isolation import NO_REALTIME, check_isolated
from proxy.records.request_fields import parse_request_fields
from tests.fakes.call_dependencies import call
from tests.fakes.refusals import refusing

README = Path(__file__).resolve().parents[3] / "proxy/api/README.md"
SELF_CONTAINED = [
    "audio/speech",
    "audio/transcriptions",
    "audio/translations",
    "chat/completions",
    "completions",
    "embeddings",
    "images/edits",
    "images/generations",
    "images/variations",
    "messages",
    "messages/count_tokens",
    "moderations",
    "rerank",
    "responses",
    "responses/compact",
    "responses/input_tokens",
]
CONTINUING = [
    "messages",
    "messages/count_tokens",
    "responses",
    "responses/compact",
    "responses/input_tokens",
]
ALONE = ("chat/completions", "GET", 1)


@pytest.mark.parametrize("teams", [0, 1, 2, 50])
@pytest.mark.parametrize("endpoint", SELF_CONTAINED)
def test_endpoints_without_provider_state_are_open_to_all_teams(endpoint, teams):
    check_isolated(call(b"{}", endpoint), teams)


@pytest.mark.parametrize("endpoint", [path for path in SELF_CONTAINED if path not in CONTINUING])
def test_nor_need_its_body_be_read_where_no_body_goes_on_from_anything(endpoint):
    check_isolated(call(b"\xff", endpoint, fields=None), 2)


@pytest.mark.parametrize("endpoint", CONTINUING)
def test_a_response_whose_body_was_not_read_may_go_on_from_what_is_kept(endpoint):
    with refusing(403, match="no JSON object, so it may go on from what the provider"):
        check_isolated(call(b"\xff", endpoint, fields=None), 2)


@pytest.mark.parametrize(
    ("endpoint", "method", "teams"),
    [
        (endpoint, method, teams)
        for endpoint in SELF_CONTAINED
        for method in ("GET", "HEAD", "PUT", "DELETE")
        for teams in (1, 2)
        if (endpoint, method, teams) != ALONE
    ],
)
def test_a_path_that_only_takes_post_says_so_to_whoever_asks_otherwise(endpoint, method, teams):
    with refusing(405, match=r"did you mean POST\?") as caught:
        check_isolated(call(b"", endpoint, method=method, fields=None), teams)

    assert (caught.value.status, caught.value.code) == (405, "method_not_allowed")
    assert caught.value.headers == {"allow": "POST"}


def test_a_team_alone_may_list_what_the_provider_keeps_of_it():
    endpoint, method, teams = ALONE
    check_isolated(call(b"", endpoint, method=method, fields=None), teams)


def test_a_list_of_what_is_kept_for_all_teams_says_who_can_allow_it():
    with refusing(405, match="THRIFTGATE_SHARED_PROVIDER_STATE=true"):
        check_isolated(call(b"", method="GET", fields=None), 2)


@pytest.mark.parametrize(
    ("endpoint", "method"),
    [
        ("files", "POST"),
        ("batches", "GET"),
        ("responses/resp_1", "GET"),
        ("responses/", "POST"),
        ("chat/completions/chatcmpl_1", "POST"),
        ("conversations", "POST"),
    ],
)
def test_provider_state_is_open_to_one_team_only(endpoint, method):
    sent_call = call(b"{}", endpoint, method=method)
    check_isolated(sent_call, 1)
    with refusing(403, match="reaches what the provider keeps for all teams") as caught:
        check_isolated(sent_call, 2)

    assert caught.value.code == "provider_state_is_shared"


@pytest.mark.parametrize("endpoint", ["made/tomorrow", "filesystem"])
def test_a_path_that_nobody_knows_is_one_teams_only_and_said_to_be_unknown(endpoint):
    sent_call = call(b"{}", endpoint)
    check_isolated(sent_call, 1)
    with refusing(403, match="does not know, so it may reach what the provider keeps"):
        check_isolated(sent_call, 2)


@pytest.mark.parametrize(
    "field",
    [
        b'"previous_response_id":"resp_1"',
        b'"conversation":"conv_1"',
        b'"conversation":{"id":"conv_1"}',
        b'"background":true',
        b'"b\\u0061ckground":true',
        b'"background":null,"background":true',
    ],
)
@pytest.mark.parametrize("endpoint", CONTINUING)
def test_a_response_that_needs_what_the_provider_keeps_is_one_teams_only(field, endpoint):
    sent_call = call(b"{" + field + b"}", endpoint)
    check_isolated(sent_call, 1)
    with refusing(403, match="keeps for all teams") as caught:
        check_isolated(sent_call, 2)
    assert f"(`{caught.value.param}`)" in caught.value.message
    check_isolated(call(b"{" + field + b"}", "chat/completions"), 2)


def test_a_field_that_says_nothing_is_as_good_as_none():
    body = b'{"previous_response_id":null,"conversation": null ,"background":false}'

    check_isolated(call(body, "responses"), 2)


@pytest.mark.parametrize("teams", [1, 2])
def test_tokens_that_go_past_the_gateway_are_given_to_nobody(teams):
    with refusing(403, match="own tokens"):
        check_isolated(call(b"{}", "chatkit/sessions"), teams)


@pytest.mark.parametrize("teams", [1, 2])
@pytest.mark.parametrize(
    "endpoint",
    [
        "realtime",
        "realtime/calls",
        "realtime/client_secrets",
        "realtime/sessions",
        "realtime/transcription_sessions",
    ],
)
def test_realtime_sessions_are_refused_in_the_sentence_that_readme_has(endpoint, teams):
    with refusing(403) as caught:
        check_isolated(call(b"{}", endpoint), teams)

    assert (caught.value.status, caught.value.code) == (403, "realtime_unsupported")
    assert caught.value.message.startswith(NO_REALTIME)
    assert "SHARED_PROVIDER_STATE=true" in caught.value.message
    assert NO_REALTIME in README.read_text(encoding="utf8")


@pytest.mark.parametrize(
    ("slip", "intended"),
    [
        ("chat/completion", "chat/completions"),
        ("v1/chat/completions", "chat/completions"),
        ("response", "responses"),
        ("embedding", "embeddings"),
    ],
)
def test_a_slip_in_a_path_is_answered_with_what_was_meant(slip, intended):
    with refusing(404, match=rf"did you mean /v1/{intended}\?") as caught:
        check_isolated(call(b"{}", slip), 2)

    assert (caught.value.status, caught.value.code) == (404, "unknown_path")
    check_isolated(call(b"{}", slip), 1)


@pytest.mark.parametrize("endpoint", ["images/variants", "chat/completions/x", "conversations"])
def test_a_path_that_is_another_is_no_slip(endpoint):
    with refusing(403):
        check_isolated(call(b"{}", endpoint), 2)


@pytest.mark.parametrize(
    "thread", [b'{"type":"create"}', b'{"type":"continue","previous_message_id":"msg_1"}']
)
def test_a_thread_is_refused_where_teams_share_an_account_with_what_tool_runners_wait_for(thread):
    body = b'{"model":"claude","messages":[],"thread":%b}' % thread
    sent_call = call(body, "messages", fields=parse_request_fields(body))
    with refusing(403, match="goes on from what the provider keeps .* \\(`thread`\\)") as caught:
        check_isolated(sent_call, 2)

    assert caught.value.details["details"]["error_code"] == "thread_unsupported_request"
    check_isolated(sent_call, 1)


@pytest.mark.parametrize("container", [b'"container_011C"', b'{"id":"container_011C"}'])
@pytest.mark.parametrize("endpoint", ["messages", "messages/count_tokens"])
def test_a_container_of_another_team_is_not_reached_where_teams_share_an_account(
    container: bytes, endpoint: str
) -> None:
    body = b'{"model":"claude","messages":[],"container":%b}' % container
    sent_call = call(body, endpoint, fields=parse_request_fields(body))
    with refusing(403, match="goes on from what the provider keeps .* \\(`container`\\)") as caught:
        check_isolated(sent_call, 2)

    assert (caught.value.code, caught.value.param) == ("provider_state_is_shared", "container")
    assert not caught.value.details
    check_isolated(sent_call, 1)


def test_a_new_container_is_made_for_any_team() -> None:
    body = b'{"model":"claude","messages":[],"container":{"skills":[]}}'

    check_isolated(call(body, "messages", fields=parse_request_fields(body)), 2)
