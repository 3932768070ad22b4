import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import CallerError
from proxy.records.request_fields import parse_request_fields, raw_field, replace_fields
from tests.fakes.refusals import refusing

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
READ = ("model", "stream", "stream_options", "metadata", "user", "safety_identifier")
unread = st.text().filter(lambda name: name not in (*READ, "service_tier"))


@st.composite
def bodies(draw: st.DrawFn) -> tuple[dict[str, str], bytes]:
    """A JSON object by its fields' own texts, in any layout."""
    drawn = draw(st.dictionaries(unread, values, max_size=6))
    layout = {"indent": draw(st.none() | st.integers(0, 3)), "ensure_ascii": draw(st.booleans())}
    texts = {
        name: json.dumps(value, **layout)  # type: ignore[arg-type]
        for name, value in drawn.items()
    }
    gap = draw(st.sampled_from(["", " ", "\n\t", "\r\n"]))
    fields = f",{gap}".join(f"{json.dumps(n)}{gap}:{gap}{text}" for n, text in texts.items())
    return texts, f"{gap}{{{gap}{fields}{gap}}}{gap}".encode()


@pytest.mark.slow
@given(bodies(), st.dictionaries(st.sampled_from([*READ, "x"]), values, max_size=3))
def test_fields_that_are_not_replaced_keep_their_bytes_and_their_place(body, new):
    texts, raw = body
    fields = {name: json.dumps(value).encode() for name, value in new.items()}
    made = replace_fields(raw, fields)

    pairs = json.loads(made, object_pairs_hook=list)
    assert [name for name, _ in pairs] == [*texts, *(n for n in fields if n not in texts)]
    for name, text in texts.items():
        expected = fields.get(name, text.encode())
        assert raw_field(made, name) == expected


@pytest.mark.slow
@given(bodies())
def test_a_body_of_unknown_fields_asks_for_nothing(body):
    fields = parse_request_fields(body[1])

    assert (fields.model, fields.stream, fields.feature, fields.end_user) == ("", None, "", "")
    assert not fields.wants_usage


@given(st.binary(max_size=40))
def test_no_bytes_at_all_surprise_the_reader(body):
    with suppress(CallerError):
        assert len(parse_request_fields(body).model) <= 512


def test_request_fields_are_read_from_the_body():
    body = (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1},'
        b'"metadata":{"feature":"search","other":3},"user":"u","service_tier":"flex"}'
    )
    fields = parse_request_fields(body)

    assert (fields.model, fields.stream, fields.wants_usage) == ("m", True, True)
    assert (fields.feature, fields.end_user, fields.service_tier) == ("search", "u", "flex")


def test_a_safety_identifier_goes_before_the_user():
    assert parse_request_fields(b'{"user":"u","safety_identifier":"s"}').end_user == "s"


@pytest.mark.parametrize(
    "body",
    [
        b'{"stream":null,"metadata":null,"stream_options":null,"user":null}',
        b'{"metadata":{"feature":null},"stream_options":{"include_usage":null}}',
    ],
)
def test_null_asks_for_nothing(body):
    fields = parse_request_fields(body)

    assert (fields.wants_usage, fields.feature, fields.end_user) == (False, "", "")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"user":"\xff"}', b'{"user":"\\ud800"}', b'{"a":1} x']
)
def test_a_body_that_is_no_json_gets_an_error_that_says_so(body):
    with refusing(400, match="not valid JSON") as caught:
        parse_request_fields(body)
    assert (caught.value.code, caught.value.param) == ("invalid_json", None)


@pytest.mark.parametrize(
    ("text", "half", "byte"),
    [
        (r"\ud83d", r"\ud83d", 9),
        (r"a \uD83D b", r"\uD83D", 11),
        (r"\ud83d\n", r"\ud83d", 9),
        (r"\ud83dA", r"\ud83d", 9),
        (r"\ude00", r"\ude00", 9),
        (r"\\\ud83d", r"\ud83d", 11),
        (r"\ud83d\ude00\ude00", r"\ude00", 21),
        (r"\ud83d\ud83d\ude00", r"\ud83d", 9),
        (r"\\ud83d \ud83d", r"\ud83d", 17),
    ],
)
def test_half_a_character_is_told_as_what_it_is(text, half, byte):
    with refusing(400, match="half of a surrogate pair") as caught:
        parse_request_fields(b'{"user":"' + text.encode() + b'"}')

    hint = f"not valid JSON: {half} (byte {byte}) is half"
    assert hint in caught.value.message
    assert caught.value.code == "invalid_json"


def test_half_a_character_is_looked_for_in_the_beginning_alone():
    far = b'{"user":"' + b" " * 100_000 + rb"\ud83d" + b'"}'

    with refusing(400, match="not valid JSON") as caught:
        parse_request_fields(far)

    assert "surrogate pair, and no" not in caught.value.message


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\\ud83d", r"\uD83D\uDE00", r"\ufffd"])
def test_whole_characters_are_not_blamed_for_another_mistake(text):
    assert parse_request_fields(b'{"user":"' + text.encode() + b'"}')
    with refusing(400, match="truncated"):
        parse_request_fields(b'{"user":"' + text.encode() + b'"')


def test_json_nested_without_end_is_told_so():
    with refusing(400, match="not valid JSON"):
        parse_request_fields(b'{"x":' + b"[" * 200_000)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"model":3}', "model"),
        (b'{"model":"' + b"m" * 513 + b'"}', "model"),
        (b'{"stream":"yes"}', "stream"),
        (b'{"stream_options":{"include_usage":1}}', "stream_options.include_usage"),
        (b'{"metadata":[]}', "metadata"),
        (b"[]", None),
        (b'"text"', None),
    ],
)
def test_a_wrong_type_is_told_with_its_parameter(body, param):
    with refusing(400) as caught:
        parse_request_fields(body)

    assert (caught.value.code, caught.value.param) == ("invalid_type", param)
    assert f"`{param}`" in caught.value.message or "the body" in caught.value.message


def test_a_field_is_told_as_it_was_written():
    assert raw_field(b'{"a": 1.50 ,"b":"\\u0041"}', "a") == b"1.50"
    assert raw_field(b'{"a":1,"b":"\\u0041"}', "b") == b'"\\u0041"'
    assert raw_field(b'{"a":1}', "c") is None


def test_numbers_and_escapes_survive_as_they_were_written():
    body = b'{"seed":12345678901234567890123,"t":1.0e+2,"s":"\\u00e9\\/","model":"a"}'

    assert replace_fields(body, {"model": b'"b"'}) == body.replace(b'"a"', b'"b"')


def test_a_request_for_thinking_is_read_beside_the_other_fields() -> None:
    fields = parse_request_fields(
        b'{"model":"m","thinking":{"type":"adaptive"},"messages":[{"thinking":1}]}'
    )

    assert fields.thinking_body == b'{"reasoning_effort":null,"thinking":{"type":"adaptive"}}'
    assert parse_request_fields(b"{}").thinking_body == b'{"reasoning_effort":null,"thinking":null}'


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (b'[{"type":"function","name":"f"},{"type":"web_search_preview"}]', True),
        (b'[{"type":"code_interpreter","container":{"type":"auto"}}]', True),
        (b'[{"type":"file_search"}]', True),
        (b'[{"type":"image_generation"}]', True),
        (b'[{"type":"computer_use_preview"}]', True),
        (b'[{"type":"function","name":"web_search","parameters":{"type":"file_search"}}]', False),
        (b'[{"type":["web_search"]}]', False),
        (b'"web_search"', False),
        (b"[]", False),
        (b"null", False),
    ],
)
def test_a_tool_that_its_provider_runs_is_known_by_its_type(tools, expected):
    assert parse_request_fields(b'{"tools":' + tools + b"}").offers_hosted is expected
    assert not parse_request_fields(b"{}").offers_hosted


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ('"container_011C"', "container"),
        ('{"id": "container_011C", "skills": []}', "container"),
        ('{"id": 5}', "container"),
        ("[1]", "container"),
        ('{"id": null, "skills": [{"type": "anthropic", "skill_id": "pptx"}]}', ""),
        ("{}", ""),
        ("null", ""),
    ],
)
def test_a_container_that_is_used_again_is_state_of_its_provider_and_a_new_one_is_not(
    container: str, field: str
) -> None:
    read = parse_request_fields(f'{{"model": "claude", "container": {container}}}'.encode())

    assert (read.kept_state_field, read.needs_kept_state) == (field, bool(field))
