from hypothesis import given
from hypothesis import strategies as st

from dashboards.refilled_form import SubmittedForm, refill_form

PAGE = """<!doctype html>
<p>R&amp;D &#39;s</p>
<details>
<summary>Change a</summary>
<form method="post" action="/set"><input type="hidden" name="name" value="a"><input name="limit" value="1"></form>
</details>
<details class="x">
<summary>Change b</summary>
<form method="post" action="/set">
<input type="hidden" name="name" value="b"><input name="limit" value="1" required size="12">
<input type="password" name="secret"><input type="checkbox" name="hard" value="yes" checked>
<select name="unit"><option>usd</option><option value="tok">tokens</option><option value="" selected>none</option></select>
</form>
</details>
<form method="post"><input name="limit"></form>
</html>
"""  # noqa: E501 - HTML


def submission(**fields: str) -> SubmittedForm:
    return SubmittedForm(page="/page?x=1", action="/set", fields=fields, faults=["limit: <no>."])


def test_the_form_that_was_sent_has_its_values_its_faults_and_is_open() -> None:
    html = refill_form(PAGE, submission(name="b", limit='"5', unit="tok", secret="s"))

    assert html is not None
    before, after = html.split("<details open>")
    assert "Change a" in before
    assert "Change b" in after
    assert "<li>limit: &lt;no&gt;.</li>" in after
    assert 'name="limit" required size="12" value="&quot;5"' in after
    assert '<input type="checkbox" name="hard" value="yes">' in after
    assert '<option value="tok" selected>tokens</option><option value="">none</option>' in after
    assert '<input type="hidden" name="form_page" value="/page?x=1">' in after
    assert "secret" in after
    assert 'value="s"' not in after


def test_the_rest_of_the_page_stays_as_it_is() -> None:
    html = refill_form(PAGE, submission(name="a", limit="1"))

    assert html is not None
    assert html.startswith(PAGE[: PAGE.index("<details>")])
    assert html.endswith(PAGE[PAGE.index('<details class="x">') :])


def test_a_form_without_an_action_is_sent_to_its_own_page() -> None:
    form = SubmittedForm(page="/p?x=1", action="/p", fields={"limit": "7"}, faults=["no."])
    html = refill_form(PAGE, form)

    assert html is not None
    assert '<input name="limit" value="7"></form>\n</html>' in html


def test_a_page_without_such_a_form_is_none() -> None:
    assert refill_form(PAGE, submission(name="c")) is None
    assert refill_form("", submission()) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_texts_of_people_become_no_markup(limit: str, fault: str) -> None:
    form = SubmittedForm(
        page="/p", action="/set", fields={"name": "b", "limit": limit}, faults=[fault]
    )
    html = refill_form(PAGE, form)

    assert html is not None
    assert (
        html.count("<")
        == PAGE.count("<") + len(["", "input>", "div>", "ul>", "li>", "/li>", "/ul>", "/div>"]) - 1
    )
