"""Forms of ceilings and objectives: texts of people, fields of the file, and back."""

import pytest

from proxy.errors import CallerError
from proxy.pages.resources.policies.policy_forms import (
    POLICY_FORMS,
    form_inputs,
    form_texts,
    invalid_policy_error,
    policy_fields,
)
from slo.policies.file import KINDS
from slo.policies.toml_text import read_policy
from slo.toml.problems import InvalidFile


def test_texts_become_the_values_that_the_file_has() -> None:
    form = {
        "name": " cent ",
        "limit": "0.01",
        "on_exceed": "cheaper, refuse",
        "cheaper": "small",
        "team": "",
        "other": "ignored",
    }
    assert policy_fields("ceilings", form) == {
        "name": "cent",
        "limit": "0.01",
        "on_exceed": ["cheaper", "refuse"],
        "cheaper": ["small"],
    }


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [("p", "95", 95), ("p", "99.9", 99.9), ("floor", "0.7", 0.7), ("p", "most", "most")],
)
def test_numbers_are_read_as_such(key: str, text: str, value: object) -> None:
    assert policy_fields("objectives", {key: text}) == {key: value}


def test_none_is_an_empty_list() -> None:
    assert policy_fields("ceilings", {"on_exceed": "none"}) == {"on_exceed": []}


def test_fields_become_the_texts_that_stand_for_them() -> None:
    fields = {"name": "a", "p": 95, "ladder": ["elsewhere", "small"], "cheaper": []}

    assert form_texts(fields) == {
        "name": "a", "p": "95", "ladder": "elsewhere, small", "cheaper": "none",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["", "budgets", "residency"])
def test_other_kinds_have_no_form(kind: str) -> None:
    with pytest.raises(CallerError, match="Choose one of ceilings, objectives"):
        policy_fields(kind, {})


def test_a_text_without_end_is_refused() -> None:
    with pytest.raises(CallerError, match="name has over 2,000"):
        policy_fields("ceilings", {"name": "x" * 2_001})


def test_inputs_are_those_of_the_file() -> None:
    keys = {kind.array: {field.key for field in kind.fields} for kind in KINDS}
    for kind, form in POLICY_FORMS.items():
        assert kind not in keys or {field.key for field in form_inputs(form)} <= keys[kind]


def test_inputs_that_the_file_requires_are_required() -> None:
    required = {field.key for field in form_inputs(POLICY_FORMS["sinks"]) if field.is_required}

    assert required == {"name", "kind", "url_env"}


def test_routes_are_written_as_upstream_and_name_and_back() -> None:
    fields = policy_fields("models", {"name": "m", "routes": "openai, azure/my/deployment"})

    assert fields["routes"] == [
        {"upstream": "openai"},
        {"upstream": "azure", "model": "my/deployment"},
    ]
    assert form_texts(fields)["routes"] == "openai, azure/my/deployment"


def test_recipients_are_written_with_commas() -> None:
    assert policy_fields("reports", {"mail_to": "ann@example.com, ben@example.com"}) == {
        "mail_to": ["ann@example.com", "ben@example.com"]
    }


def test_an_invalid_policy_names_each_field_with_its_fix() -> None:
    with pytest.raises(InvalidFile) as invalid:
        read_policy("ceilings", {"team": ""}, "ceilings")
    message = str(invalid_policy_error(invalid.value))

    assert "name is missing" in message
    assert "limit is missing; write limit" in message
    assert "team is empty" in message
