import pytest

from proxy.catalog.entries import BodyFields
from proxy.catalog.upstreams import upstream
from slo.toml.nodes import parse_toml
from slo.toml.problems import Problem


def read(text: str) -> tuple[BodyFields | None, list[Problem]]:
    problems: list[Problem] = []
    table = parse_toml(f'base_url = "https://up"\n{text}', "c.toml")
    return upstream("up", table, problems).body_fields, problems


def test_an_upstream_without_body_fields_changes_no_body() -> None:
    assert read("") == (None, [])


def test_body_fields_keep_every_type_that_json_has() -> None:
    declared, problems = read(
        """
        [body_fields]
        add = { flag = true, level = -2, share = 0.25, name = "é", list = [1, { a = "b" }] }
        rename = { max_completion_tokens = "max_tokens" }
        drop = ["store"]
        """
    )

    assert problems == []
    assert declared == BodyFields(
        add={
            "flag": b"true",
            "level": b"-2",
            "share": b"0.25",
            "name": '"é"'.encode(),
            "list": b'[1,{"a":"b"}]',
        },
        rename={"max_completion_tokens": "max_tokens"},
        drop=frozenset({"store"}),
    )


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("body_fields = 1", "body_fields", "is 1"),
        ("body_fields.ad.a = 1", "body_fields.ad", "is not known"),
        ("body_fields.add.a = 2026-11-29", "body_fields.add.a", "is 2026-11-29, which no JSON"),
        ("body_fields.add.a = [nan]", "body_fields.add.a[0]", "is nan, which no JSON holds"),
        ("body_fields.add.a = 9223372036854775808", "body_fields.add.a", "is 9223372036854775808"),
        ("body_fields.rename.a = 1", "body_fields.rename.a", "is 1"),
        ('body_fields.rename.a = ""', "body_fields.rename.a", "names no field"),
        ("body_fields.drop = [true]", "body_fields.drop[0]", "is true"),
        ('body_fields.drop = "a"', "body_fields.drop", 'is the string "a"'),
        ('body_fields.add.model = "m"', "body_fields.add.model", "changes model, which the gate"),
        ('body_fields.rename.a = "stream"', "body_fields.rename.a", "changes stream, which the"),
        ('body_fields = { add.a = 1, drop = ["a"] }', "body_fields.drop[0]", "changes a twice"),
        ('body_fields.rename = { a = "b", b = "c" }', "body_fields.rename.a", "changes b twice"),
    ],
)
def test_body_fields_that_cannot_be_sent_are_reported(text: str, where: str, what: str) -> None:
    (problem,) = read(text)[1]

    assert (problem.where, problem.what[: len(what)]) == (where, what)
    assert problem.fix
