"""Forms of teams, keys and people as an administrator fills them in, with the audit log's who."""

import re
from collections.abc import Callable, Iterator
from itertools import count

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from dashboards.access import Role
from proxy.tools.demo.session import TEAMS
from tests.browser.test_pages import Watch
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser
_NUMBERS = count()


@pytest.fixture
def page(admin: BrowserContext, gateway: DemoGateway) -> Iterator[Page]:
    """A page of an administrator that logs nothing and asks no other host."""
    opened = admin.new_page()
    watch = Watch(opened, gateway.url)
    yield opened
    assert watch.problems == []


def audit_row(page: Page, action: str, subject: str) -> str:
    """The text of the audit log's row, which says who did it."""
    page.goto("/admin/audit?who=admin")
    row = page.locator("#changes tbody tr").filter(has_text=action).filter(has_text=subject).first
    expect(row.get_by_role("rowheader")).to_have_text("admin")
    return row.inner_text()


def make_key(page: Page, name: str, **fields: str) -> str:
    """The secret of a new key of the first team."""
    page.goto("/admin/teams")
    form = page.locator("form[action$='/create-key']")
    form.get_by_label("Team").select_option(TEAMS[0])
    for field, text in {"name": name, **fields}.items():
        form.locator(f"input[name={field}]").fill(text)
    page.get_by_role("button", name="Create key").click()
    return page.locator(".secret").inner_text()


def status(gateway: DemoGateway, secret: str, model: str = "gpt-5.6-terra") -> int:
    """The status that a call by this key gets."""
    head = {"authorization": f"Bearer {secret}"}
    sent = {"model": model, "messages": [{"role": "user", "content": "Good morning."}]}
    url = f"{gateway.url}/v1/chat/completions"
    return httpx.post(url, headers=head, json=sent, timeout=30).status_code


def wait_until_refused(page: Page, gateway: DemoGateway, secret: str) -> None:
    """Wait until a key opens nothing, some seconds at most."""
    for _ in range(20):
        if status(gateway, secret) == 401:
            return
        page.wait_for_timeout(500)
    pytest.fail("a revoked key still opens")


def test_a_team_is_made_and_its_prompts_are_stored_and_no_more(
    page: Page, gateway: DemoGateway
) -> None:
    name = f"new-team-{next(_NUMBERS)}"
    page.goto("/admin/teams")
    form = page.locator("form[action$='/teams/create']")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Store the text of its prompts").check()
    form.get_by_role("button", name="Create team").click()

    row = page.locator("#teams tbody tr").filter(has_text=name)
    expect(row.locator("[data-name=Prompts]")).to_contain_text("stored")
    row.get_by_role("button", name=f"Store no more prompts of {name}").click()
    expect(row.get_by_role("button", name=f"Store prompts of {name}")).to_be_visible()
    keeps_prompts = {team.name: team.keeps_prompts for team in gateway.store.teams.all()}
    assert keeps_prompts[name] is False
    assert "keeps prompts" in audit_row(page, "create team", name)
    audit_row(page, "drop prompts", name)


def test_a_key_opens_its_models_within_its_budget_until_it_is_revoked(
    page: Page, gateway: DemoGateway
) -> None:
    name = f"ci-{next(_NUMBERS)}"
    secret = make_key(page, name, lasts="90d", models="gpt-5.6-terra", limit="0.000001")
    row = page.locator("#keys tbody tr").filter(has_text=name)
    expect(row.locator("[data-name=Models]")).to_have_text("gpt-5.6-terra")
    expect(row.locator("[data-name=Budget]")).to_contain_text("$0.000001 a month")
    expect(row.locator("[data-name=State]")).to_contain_text("until")
    assert status(gateway, secret, "gpt-5.6-luna") == 403
    assert status(gateway, secret) == 429  # not even one call fits the budget

    page.goto("/admin/teams")
    expect(page.locator("body")).not_to_contain_text(secret)
    row.get_by_label(re.compile("Change the budget")).click()
    row.get_by_label("Budget in dollars").fill("5")
    row.get_by_role("button", name="Change the budget").click()
    expect(row.locator("[data-name=Budget]")).to_contain_text("$5 a month")
    assert status(gateway, secret) == 200

    row.get_by_role("button", name=f"Revoke the key {name}").click()
    expect(row.locator("[data-name=State]")).to_contain_text("revoked")
    wait_until_refused(page, gateway, secret)
    key = row.locator(".id").first.inner_text()
    assert "gpt-5.6-terra" in audit_row(page, "create key", key)
    for action in ("create budget", "change budget", "remove budget", "revoke key"):
        audit_row(page, action, key)


def test_a_keys_form_with_a_mistake_keeps_what_was_filled_in(
    admin: BrowserContext,
) -> None:
    page = admin.new_page()
    page.goto("/admin/teams")
    page.get_by_label("Budget in dollars").last.fill("much")
    page.get_by_role("button", name="Create key").click()

    expect(page.get_by_role("alert")).to_contain_text("write dollars of at most 9 decimals")
    expect(page.get_by_role("heading", level=1)).to_have_text("Teams and keys")
    expect(page.get_by_label("Budget in dollars").last).to_have_value("much")


def test_a_person_signs_in_by_a_link_sees_own_teams_and_is_let_in_no_more(
    page: Page, chromium: Browser, gateway: DemoGateway
) -> None:
    name = f"ann-{next(_NUMBERS)}"
    page.goto("/admin/people")
    form = page.locator("form[action$='/people/add']")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Role").select_option("viewer")
    form.get_by_label(TEAMS[0]).check()
    form.get_by_role("button", name="Add, and make a link").click()
    link = page.locator(".secret").inner_text()

    own = chromium.new_context(base_url=gateway.url).new_page()
    own.goto(link)
    own.get_by_role("button", name="Sign in by this link").click()
    own.goto("/admin/teams")
    expect(own.locator("#teams tbody tr")).to_have_count(1)
    expect(own.locator("#teams")).to_contain_text(TEAMS[0])
    assert own.goto("/admin/people").status == 403  # type: ignore[union-attr]

    row = page.locator("#people tbody tr").filter(has_text=name)
    row.get_by_text("Change", exact=True).click()
    row.get_by_label("Role").select_option("team-admin")
    row.get_by_role("button", name="Set role and teams").click()
    expect(row).to_contain_text("team-admin")
    row.get_by_text("Change", exact=True).click()
    row.get_by_role("button", name="Let them sign in no more").click()
    expect(row).to_contain_text("disabled")
    person = next(user for user in gateway.store.users.all() if user.name == name)
    assert (person.role, person.is_disabled) == (Role.TEAM_ADMIN, True)
    own.wait_for_timeout(6_000)  # a change holds within five seconds
    own.goto("/admin/teams")
    expect(own.get_by_role("heading", level=1)).to_have_text("Sign in")
    for action in ("add person", "change role", "disable person"):
        audit_row(page, action, name)
    own.context.close()


def test_a_key_opens_its_own_usage_without_an_account(
    page: Page, view: tuple[str, BrowserContext], take_picture: Callable[[Page, str], None]
) -> None:
    secret = make_key(page, f"own-{next(_NUMBERS)}", limit="25")
    name, window = view
    window.clear_cookies()
    own = window.new_page()
    own.goto("/me")
    faults = Axe().run(own).response["violations"]
    own.get_by_label("The key that your calls are sent with").fill(secret)
    own.get_by_role("button", name="Show its usage").click()

    expect(own.get_by_role("heading", level=1)).to_have_text("Usage of this key")
    expect(own.locator("section[aria-labelledby=limits-title]")).to_contain_text("$25.00")
    assert secret not in own.content() + own.url
    assert own.evaluate("document.cookie") == ""
    assert own.evaluate("document.documentElement.scrollWidth <= innerWidth")
    faults += Axe().run(own).response["violations"]
    take_picture(own, f"own-usage-{name}")
    own.get_by_role("button", name="Forget the key").click()
    expect(own.get_by_role("heading", level=1)).to_have_text("Usage of a key")
    assert faults == []


def test_pages_of_access_with_their_forms_open_read_well(
    view: tuple[str, BrowserContext], take_picture: Callable[[Page, str], None]
) -> None:
    name, window = view
    page = window.new_page()
    make_key(page, f"pictured-{next(_NUMBERS)}", limit="25")
    page.locator("#keys summary").first.click()
    faults = Axe().run(page).response["violations"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    take_picture(page, f"teams-form-{name}")
    page.goto("/admin/people")
    page.locator("summary").first.click()
    faults += Axe().run(page).response["violations"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    take_picture(page, f"people-form-{name}")

    assert [fault["id"] for fault in faults if fault["impact"] in {"serious", "critical"}] == []
