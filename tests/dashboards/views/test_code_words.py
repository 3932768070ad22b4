import re
from pathlib import Path

import pytest

from dashboards.views import code_words as module
from dashboards.views.code_words import CODE_WORDS, code_words
from proxy.prefix.explain.reasons import MissReason
from proxy.records.receipt import Outcome, ServedBy
from slo.usage import Usage

TEMPLATES = Path(module.__file__).parents[1] / "templates"
CODES = [*Outcome, *MissReason, *filter(None, ServedBy), *Usage.__struct_fields__, "other"]


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_a_receipt_has_words(code: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9', -]+", code_words(code)), code
    assert code in CODE_WORDS or re.fullmatch("[a-z_]+", code)


def test_a_code_of_another_version_is_shown_by_its_own_words() -> None:
    assert code_words("lost_in_space") == "lost in space"


def test_templates_show_no_code_of_a_receipt_without_its_words() -> None:
    raw = re.compile(r"(?<!title=\")\{\{ \w+\.(?:outcome|error|miss|served_by|bucket|code) \}\}")
    shown = {path.name: raw.findall(path.read_text()) for path in TEMPLATES.glob("*.html")}

    assert {name: codes for name, codes in shown.items() if codes and name != "sign_in.html"} == {}
