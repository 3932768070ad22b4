"""Sign-in at an identity provider: groups give roles, and each callback belongs to its browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboards.access import Role
from proxy.errors import OperatorError
from proxy.pages.access.identity_provider import IdentityProvider, ProviderSettings
from proxy.pages.access.single_sign_on import (
    SingleSignOn,
    granted_role,
    parse_group_roles,
    router,
)
from proxy.pages.store_questions import StoreQuestions
from proxy.store.store import Store
from tests.fakes.admin_api import PATIENCE_S
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard, new_cookie
from tests.fakes.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    REDIRECT_URI,
    FakeProvider,
)

ROLES = "ops=admin, leads=team-admin:acme, leads-2=team-admin:other, money=finance"


class SignOnHarness:
    """A dashboard whose people sign in at a provider, and a browser before it."""

    def __init__(self, store: Store, folder: Path, *, creates_people: bool = False) -> None:
        self.store = store
        self.dashboard = Dashboard(store, folder)
        self.fake = FakeProvider(NOW)
        settings = ProviderSettings(
            issuer=ISSUER,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            redirect_uri=REDIRECT_URI,
        )
        provider = IdentityProvider(settings, lambda: NOW, self.fake.transport())
        ask, people = StoreQuestions(store, PATIENCE_S), (store.users, store.teams)
        single = SingleSignOn(provider, parse_group_roles(ROLES), people, ask, b"s" * 32)
        self.now = NOW
        routes = router(
            single, self.dashboard.access, lambda: self.now, creates_people=creates_people
        )
        self.dashboard.app.include_router(routes)

    def begin(self, target: str = "") -> tuple[str, str]:
        """The cookie of an attempt, and the provider's URL."""
        sent = self.dashboard.ask("GET", f"/admin/sso?next={target}")
        assert sent.status == 303
        return new_cookie(sent), sent.headers["location"]

    def call_back(self, cookie: str, query: str) -> AsgiConnection:
        path = f"/admin/sso/callback?{query}"
        return self.dashboard.ask("GET", path, cookie=cookie, sec_fetch_site="cross-site")

    def sign_in(self, **claims: Any) -> AsgiConnection:
        self.fake.claims = claims
        cookie, url = self.begin()
        code, state = self.fake.sign_in(url)
        return self.call_back(cookie, f"code={code}&state={state}")


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Iterator[SignOnHarness]:
    made = SignOnHarness(store, tmp_path)
    yield made
    made.dashboard.close()


@pytest.fixture
def open_site(store: Store, tmp_path: Path) -> Iterator[SignOnHarness]:
    made = SignOnHarness(store, tmp_path, creates_people=True)
    yield made
    made.dashboard.close()


def session_of(answer: AsgiConnection) -> str:
    """The cookie of the session that an answer opens; it deletes the attempt's, too."""
    cookies: list[str] = [
        value.decode() for name, value in answer.sent[0]["headers"] if name == b"set-cookie"
    ]
    (opened,) = [cookie for cookie in cookies if cookie.startswith("thriftgate_admin=")]
    assert any(cookie.startswith('thriftgate_sso=""') for cookie in cookies)
    return opened.partition(";")[0]


def test_a_person_whom_an_administrator_added_signs_in_with_the_role_of_their_group(
    site: SignOnHarness,
) -> None:
    site.dashboard.add_person("ann@acme.example", Role.VIEWER)
    answer = site.sign_in(groups=["leads", "leads-2", "unknown"])
    assert answer.status == 303

    who = site.dashboard.ask("GET", "/api/v1/session", cookie=session_of(answer))
    assert b'"name":"ann@acme.example","role":"team-admin"' in who.body
    ann = site.store.users.find("ann@acme.example")
    assert ann is not None
    assert ann.teams == {site.dashboard.own, site.dashboard.other}
    actions = [entry.action for entry in site.store.audit.entries(9, who="identity provider")]
    assert sorted(actions) == ["change role", "link to identity provider"]


def test_a_change_of_groups_changes_the_role_at_the_next_sign_in(open_site: SignOnHarness) -> None:
    assert open_site.sign_in(groups=["ops"]).status == 303
    assert open_site.sign_in(groups=["money"]).status == 303

    ann = open_site.store.users.by_subject(f"{ISSUER} u-1")
    assert ann is not None
    assert (ann.name, ann.role) == ("ann", Role.FINANCE)


def text(answer: AsgiConnection) -> str:
    return " ".join(answer.body.decode().replace("&#39;", "'").split())


def test_single_sign_on_needs_an_added_person_with_a_verified_address(
    site: SignOnHarness,
) -> None:
    answer = site.sign_in()
    assert (answer.status, "you have not been added" in text(answer)) == (403, True)

    site.dashboard.add_person("ann@acme.example", Role.VIEWER)
    assert site.sign_in(email_verified=False).status == 403
    assert site.sign_in(email_verified="true").status == 403


def test_single_sign_on_does_not_take_over_a_person_with_a_password(
    open_site: SignOnHarness,
) -> None:
    ann = open_site.dashboard.add_person("ann@acme.example", Role.ADMIN)
    open_site.store.users.set_password(ann.id, "$argon2id$1", now=NOW, who="ann")
    answer = open_site.sign_in(preferred_username="ann@acme.example")

    assert (answer.status, "already" in text(answer)) == (403, True)


@pytest.mark.parametrize(
    ("claims", "status", "why"),
    [
        ({"groups": ["unknown"]}, 403, "none of your groups has a role here"),
        ({"groups": None}, 403, "none of your groups has a role here"),
        ({"nonce": "another"}, 401, "nonce"),
        ({"aud": "another"}, 401, "aud"),
    ],
)
def test_a_sign_in_that_fails_says_why_and_opens_nothing(
    open_site: SignOnHarness, claims: dict[str, Any], status: int, why: str
) -> None:
    answer = open_site.sign_in(**claims)

    assert (answer.status, why in text(answer)) == (status, True)
    assert "set-cookie" not in answer.headers


def test_a_disabled_person_stays_out(open_site: SignOnHarness) -> None:
    open_site.sign_in()
    ann = open_site.store.users.by_subject(f"{ISSUER} u-1")
    assert ann is not None
    open_site.store.users.set_disabled(ann.id, disabled=True, now=NOW, who="root")
    answer = open_site.sign_in()

    assert (answer.status, "your access was disabled" in text(answer)) == (403, True)


def test_a_callback_belongs_to_the_browser_that_began_and_to_its_time(
    open_site: SignOnHarness,
) -> None:
    cookie, url = open_site.begin()
    code, state = open_site.fake.sign_in(url)
    query = f"code={code}&state={state}"
    others, _ = open_site.begin()
    for wrong in ("", others, cookie[:-2] + "xx", cookie.replace("~", "")):
        assert open_site.call_back(wrong, query).status == 401
    assert open_site.call_back(cookie, f"code={code}&state={state}x").status == 401
    open_site.now += 600.0
    assert open_site.call_back(cookie, query).status == 401
    open_site.now -= 1.0
    assert open_site.call_back(cookie, query).status == 303

    replayed = open_site.call_back(cookie, query)
    assert (replayed.status, "used already" in text(replayed)) == (401, True)


def test_a_refusal_of_the_provider_is_told_as_text(open_site: SignOnHarness) -> None:
    cookie, url = open_site.begin()
    _, state = open_site.fake.sign_in(url)
    answer = open_site.call_back(cookie, f"error=<script>&state={state}")

    assert (answer.status, b"&lt;script&gt;" in answer.body) == (403, True)
    assert b"<script>" not in answer.body


@pytest.mark.parametrize(
    ("target", "follows"),
    [("/admin/costs", "/admin/costs"), ("//evil.example", "/admin"), ("/v1", "/admin")],
)
def test_the_page_that_was_wanted_follows_and_no_other_site(
    open_site: SignOnHarness, target: str, follows: str
) -> None:
    cookie, url = open_site.begin(target)
    code, state = open_site.fake.sign_in(url)

    answer = open_site.call_back(cookie, f"code={code}&state={state}")
    locations = [value for name, value in answer.sent[0]["headers"] if name == b"location"]
    assert locations == [follows.encode()]


def test_the_first_entry_decides_the_role_and_its_entries_the_teams() -> None:
    roles, teams = parse_group_roles(ROLES), {"acme": "team_1", "other": "team_2"}

    def role_of(*groups: str) -> Any:
        return granted_role(roles, frozenset(groups), teams)

    assert role_of("money", "leads") == (Role.TEAM_ADMIN, {"team_1"})
    assert role_of("leads-2", "leads") == (Role.TEAM_ADMIN, {"team_1", "team_2"})
    assert role_of("ops", "leads") == (Role.ADMIN, frozenset())
    assert granted_role(roles, frozenset({"leads"}), {}) == (Role.TEAM_ADMIN, frozenset())
    assert role_of() is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ops", "'ops' is no group=role"),
        ("ops=root", "'ops=root' is no group=role"),
        ("leads=viewer", "write leads=viewer:TEAM"),
    ],
)
def test_roles_of_groups_that_cannot_be_read_say_which_entry(text: str, why: str) -> None:
    with pytest.raises(OperatorError, match=why):
        parse_group_roles(f"money=finance,{text}")


def test_a_group_may_have_signs_in_its_name() -> None:
    (one,) = parse_group_roles("cn=ops:all=admin")
    assert (one.group, one.role, one.team) == ("cn=ops:all", Role.ADMIN, "")
