"""The table of calls: one list of columns for its page and for the live tail."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from dashboards import formatting
from dashboards.views.calls import CALL_COLUMNS, CallForm, CallRow

SCRIPT = Path(formatting.__file__).with_name("static") / "calls.js"


def test_every_column_of_calls_shows_a_field_of_their_rows() -> None:
    shown = {column.field for column in CALL_COLUMNS}
    details = {field for column in CALL_COLUMNS for field, _ in column.details}

    assert shown | details <= {field.name for field in fields(CallRow)}


def test_the_page_and_the_script_of_live_calls_know_the_same_forms() -> None:
    forms = SCRIPT.read_text().partition("const FORMS = {")[2].partition("\n};")[0]
    in_script = re.findall(r"^  (\w+)[:(]", forms, re.MULTILINE)

    assert set(in_script) == set(formatting._CALL_FORMS) == set(get_args(CallForm))
