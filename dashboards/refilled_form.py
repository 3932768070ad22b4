"""A page with one of its forms as it was submitted, and the faults of its fields beside it.

The pages are this package's own: each form is found by its action and hidden fields, and all that
is put into it is escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from typing import Final

PAGE_FIELD: Final = "form_page"
"""Hidden field that names the page a refilled form belongs to: its address is the action's."""

_Attributes = Sequence[tuple[str, str | None]]
#: Kinds of inputs whose text is not put back.
_UNFILLED: Final = frozenset({"hidden", "password", "file", "submit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedForm:
    """A form that was submitted with faults.

    Attributes:
        page: Path of its page.
        action: Path that it was sent to.
        fields: Its fields.
        faults: Its faults, a sentence each.
    """

    page: str
    action: str
    fields: Mapping[str, str]
    faults: Sequence[str]


def refill_form(html: str, submitted: SubmittedForm) -> str | None:
    """The page with the form filled in; None where it has no such form."""
    search = _FormSearch(submitted)
    search.feed(html)
    if search.found is None:
        return None
    writer = _FormWriter(submitted, search.found)
    writer.feed(html)
    return "".join(writer.parts)


@dataclass
class _SeenForm:
    """A form while it is looked at: its number, and that of the details around it; 0 for none."""

    number: int
    details: int
    is_sent_there: bool
    hidden: dict[str, str] = field(default_factory=dict)


class _FormSearch(HTMLParser):
    """Finds the form by its action and its hidden fields."""

    def __init__(self, submitted: SubmittedForm) -> None:
        super().__init__(convert_charrefs=False)
        self._submitted = submitted
        self._forms = self._details = 0
        self._open_details: list[int] = []
        self._form: _SeenForm | None = None
        self.found: _SeenForm | None = None

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        names = dict(attrs)
        if tag == "details":
            self._details += 1
            self._open_details.append(self._details)
        elif tag == "form":
            self._forms += 1
            action = names.get("action") or self._submitted.page.partition("?")[0]
            is_sent_there = names.get("method") == "post" and action == self._submitted.action
            around = self._open_details[-1] if self._open_details else 0
            self._form = _SeenForm(self._forms, around, is_sent_there)
        elif tag == "input" and self._form is not None and names.get("type") == "hidden":
            self._form.hidden[names.get("name") or ""] = names.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "details" and self._open_details:
            self._open_details.pop()
        elif tag == "form" and self._form is not None:
            form, self._form = self._form, None
            fields = self._submitted.fields
            is_same = all(fields.get(name) == value for name, value in form.hidden.items())
            if self.found is None and form.is_sent_there and is_same:
                self.found = form


class _FormWriter(HTMLParser):
    """Writes the page again with the form filled in."""

    def __init__(self, submitted: SubmittedForm, form: _SeenForm) -> None:
        super().__init__(convert_charrefs=False)
        self._submitted = submitted
        self._form = form
        self._forms = self._details = 0
        self._is_inside = False
        self._select = ""
        self._option: list[str] | None = None
        self._option_value: str | None = None
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        raw, names = self.get_starttag_text() or "", dict(attrs)
        if tag == "details":
            self._details += 1
            raw = "<details open>" if self._details == self._form.details else raw
        elif tag == "form":
            self._forms += 1
            self._is_inside = self._forms == self._form.number
            raw += self._faults() if self._is_inside else ""
        elif self._is_inside and tag == "input":
            raw = self._filled_input(names, raw)
        elif self._is_inside and tag == "select":
            self._select = names.get("name") or ""
        elif self._is_inside and tag == "option" and self._select in self._submitted.fields:
            self._option, self._option_value = [], names.get("value")
            return
        self.parts.append(raw)

    def handle_endtag(self, tag: str) -> None:
        if tag == "option" and self._option is not None:
            texts, self._option = self._option, None
            self.parts.append(self._written_option(texts))
            return
        if tag == "form":
            self._is_inside = False
        if tag == "select":
            self._select = ""
        self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        (self.parts if self._option is None else self._option).append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self.parts.append(f"<!{decl}>")

    def _faults(self) -> str:
        page = escape(self._submitted.page)
        hidden = f'<input type="hidden" name="{PAGE_FIELD}" value="{page}">'
        lines = "".join(f"<li>{escape(each)}</li>" for each in self._submitted.faults)
        return f'{hidden}<div class="problem" role="alert"><ul>{lines}</ul></div>'

    def _filled_input(self, names: Mapping[str, str | None], raw: str) -> str:
        """An input with what was submitted of it."""
        name, kind, fields = names.get("name") or "", names.get("type"), self._submitted.fields
        if kind in _UNFILLED or name == PAGE_FIELD:
            return raw
        if kind in {"checkbox", "radio"}:
            is_set = fields.get(name) == (names.get("value") or "on")
            return _tag("input", names, "checked", None if not is_set else "")
        return _tag("input", names, "value", fields[name]) if name in fields else raw

    def _written_option(self, texts: Sequence[str]) -> str:
        text, given = "".join(texts), self._option_value
        value = text.strip() if given is None else given
        selected = " selected" if self._submitted.fields[self._select] == value else ""
        attribute = "" if given is None else f' value="{escape(given)}"'
        return f"<option{attribute}{selected}>{text}</option>"


def _tag(tag: str, names: Mapping[str, str | None], changed: str, value: str | None) -> str:
    """A start tag with an attribute changed; None takes it away."""
    others = {name: text for name, text in names.items() if name != changed}
    if value is not None:
        others[changed] = value
    shown = (
        f" {name}" if not text else f' {name}="{escape(text)}"' for name, text in others.items()
    )
    return f"<{tag}{''.join(shown)}>"
