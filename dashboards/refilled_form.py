"""Shows a page with one of its forms as it was submitted, and an error beside each wrong field.

The pages are this package's own and escape all texts, so a ``<`` begins a tag and a ``>`` ends it.
Each form is found by its action and hidden fields, and all that is put into it is escaped.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from typing import Final

PAGE_FIELD: Final = "form_page"
"""Hidden field that names the page a refilled form belongs to: its address is the action's."""

#: Kinds of inputs whose text is not put back.
_UNFILLED: Final = frozenset({"hidden", "password", "file", "submit"})
_FORM: Final = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.DOTALL)
_DETAILS: Final = re.compile(r"<(/?)details\b[^>]*>")
_INPUT: Final = re.compile(r"<input\b([^>]*)>")
_SELECT: Final = re.compile(r"<select\b([^>]*)>.*?</select>", re.DOTALL)
_OPTION: Final = re.compile(r"<option\b([^>]*)>(.*?)</option>", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r'([^\s="]+)="([^"]*)"')
_CODE: Final = re.compile(r"`([^`]*)`")
_VALUE: Final = re.compile(r' value="[^"]*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedForm:
    """A form that was submitted with faults.

    Attributes:
        page: Path of its page.
        action: Path that it was sent to.
        faults: Its faults, a sentence each.
    """

    page: str
    action: str
    fields: Mapping[str, str]
    faults: Sequence[str]


def refill_form(html: str, submitted: SubmittedForm) -> str | None:
    """The page with the form filled in; None where it has no such form."""
    for form in _FORM.finditer(html):
        if _is_form_of(submitted, *form.groups()):
            content = _faults(submitted) + _fill_fields(form[2], submitted.fields)
            return _with_open_details(html[: form.start(2)]) + content + html[form.end(2) :]
    return None


def _is_form_of(submitted: SubmittedForm, head: str, content: str) -> bool:
    """True if the form was sent there with the same hidden fields."""
    form, inputs = _attributes(head), map(_attributes, _INPUT.findall(content))
    return (
        form.get("method") == "post"
        and (form.get("action") or submitted.page.partition("?")[0]) == submitted.action
        and all(
            submitted.fields.get(hidden.get("name", "")) == hidden.get("value", "")
            for hidden in inputs
            if hidden.get("type") == "hidden"
        )
    )


def _with_open_details(before: str) -> str:
    """The page before a form, with the details around it open."""
    around = list[re.Match[str]]()
    for tag in _DETAILS.finditer(before):
        if not tag[1]:
            around.append(tag)
        elif around:
            around.pop()
    if not around:
        return before
    return f"{before[: around[-1].start()]}<details open>{before[around[-1].end() :]}"


def _faults(submitted: SubmittedForm) -> str:
    hidden = f'<input type="hidden" name="{PAGE_FIELD}" value="{escape(submitted.page)}">'
    lines = "".join(f"<li>{_fault_html(fault)}</li>" for fault in submitted.faults)
    return f'{hidden}<div class="problem" role="alert"><ul>{lines}</ul></div>'


def _fault_html(fault: str) -> str:
    """A fault, with what stands between backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(fault))


def _fill_fields(content: str, fields: Mapping[str, str]) -> str:
    """The content of a form, with the fields that were submitted."""

    def filled_input(tag: re.Match[str]) -> str:
        head, input_ = tag[1], _attributes(tag[1])
        name, kind = input_.get("name", ""), input_.get("type")
        if kind in {"checkbox", "radio"}:
            is_checked = fields.get(name) == (input_.get("value") or "on")
            return f"<input{head.removesuffix(' checked')}{' checked' * is_checked}>"
        if kind in _UNFILLED or name not in fields:
            return tag[0]
        return f'<input{_VALUE.sub("", head)} value="{escape(fields[name])}">'

    def filled_select(select: re.Match[str]) -> str:
        value = fields.get(_attributes(select[1]).get("name", ""))

        def filled_option(option: re.Match[str]) -> str:
            is_selected = value == _attributes(option[1]).get("value", unescape(option[2]).strip())
            head = option[1].removesuffix(" selected") + " selected" * is_selected
            return f"<option{head}>{option[2]}</option>"

        return select[0] if value is None else _OPTION.sub(filled_option, select[0])

    return _SELECT.sub(filled_select, _INPUT.sub(filled_input, content))


def _attributes(head: str) -> dict[str, str]:
    """The attributes of a start tag that have a value."""
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(head)}
