from email import message_from_bytes

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.multipart import MAX_PARTS, is_form, with_model
from tests.fakes.refusals import refusing

FIELDS = ("model", "language")
TYPE = "multipart/form-data; boundary=b"


def part(name: str, value: bytes, more: str = "") -> bytes:
    head = f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--b--\r\n"


FILE = part("file", b"RIFF\r\n--\xff\r\nname=model", '; filename="model"')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (form(part("model", b"old"), FILE), form(part("model", b"new"), FILE)),
        (form(FILE, part("model", b"old")), form(FILE, part("model", b"new"))),
        (form(part("model", b"")), form(part("model", b"new"))),
        (form(part("model", b"a"), part("model", b"b")), form(*[part("model", b"new")] * 2)),
        (form(FILE), form(part("model", b"new"), FILE)),
        (form(), form(part("model", b"new"))),
        (b"\r\n" + form(FILE), b"\r\n" + form(part("model", b"new"), FILE)),
        (b"preamble\r\n" + form(FILE), b"preamble\r\n" + form(part("model", b"new"), FILE)),
        (
            form(part("model[]", b"x"), part("my-model", b"y")),
            form(part("model", b"new"), part("model[]", b"x"), part("my-model", b"y")),
        ),
    ],
    ids=[
        "first",
        "last",
        "empty",
        "twice",
        "none",
        "no parts",
        "blank line",
        "preamble",
        "other names",
    ],
)
def test_the_model_is_replaced_and_every_other_byte_stays(before, after):
    assert with_model(before, TYPE, "new") == after


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Disposition: form-data; name=model",
        b"content-disposition:form-data;name=model; x=y",
        b'Content-Type: text/plain\r\nCONTENT-DISPOSITION: form-data; NAME = "model"',
    ],
)
def test_the_models_part_is_found_however_its_headers_are_spelled(head):
    body = b"--b  \r\n" + head + b"\r\n\r\nold\r\n--b--"

    assert with_model(body, TYPE, "new") == body.replace(b"old", b"new")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", TYPE),
        (b"no form", TYPE),
        (b"x--b\r\n", TYPE),
        (form(FILE), "multipart/form-data"),
        (form(FILE), "multipart/mixed; boundary=b"),
        (form(FILE), "application/json; boundary=b"),
        (b'{"model":"old"}', "application/json"),
    ],
)
def test_a_body_that_is_no_form_is_left_unmodified(body, content_type):
    assert with_model(body, content_type, "new") is body


def test_a_form_is_reported_by_its_content_type():
    assert is_form("Multipart/Form-Data ; boundary=x")
    assert not is_form("")


def test_a_form_of_too_many_parts_is_refused():
    assert with_model(form(*[part("x", b"")] * (MAX_PARTS - 1)), TYPE, "new")
    with refusing(400, match="more than 1,000 parts"):
        with_model(form(*[part("x", b"")] * (MAX_PARTS + 1)), TYPE, "new")


@given(st.binary(), st.text(st.characters(categories=("L", "N"))), st.sampled_from(FIELDS))
def test_a_form_that_a_client_wrote_names_the_new_model_and_keeps_its_file(
    content: bytes, old: str, field: str
) -> None:
    sent = httpx.Request("POST", "http://x", data={field: old}, files={"file": ("model", content)})
    content_type = sent.headers["content-type"]
    body = with_model(sent.read(), content_type, "new-é")

    head = b"content-type: " + content_type.encode() + b"\r\n\r\n"
    parts = message_from_bytes(head + body).walk()
    by_name = {part.get_param("name", header="content-disposition"): part for part in parts}
    assert by_name["model"].get_payload(decode=True) == "new-é".encode()
    assert (b"\r\n\r\n" + content + b"\r\n--") in body
