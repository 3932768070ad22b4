from functools import partial

import pytest

from dashboards import cost_reports
from slo.policies.reports import (
    DIMENSIONS,
    ReportInterval,
    ScheduledReport,
    TagRule,
    is_mail_address,
    tag_keys,
)
from tests.slo.policies.policy_files import mistakes, read_policies, with_entries

SHORT = '[[reports]]\nname = "r"\nevery = "week"\nmail_to = ["ann@example.com"]\n'
with_ = partial(with_entries, SHORT)
ACME = TagRule(name="acme", team="acme", keys=("customer",))
ALL = TagRule(name="all", keys=("job", "stage"))


def reports(text: str) -> tuple[ScheduledReport, ...]:
    return read_policies(text).reports


def test_a_report_is_read_as_it_is_written() -> None:
    text = with_(
        team='"assistants"',
        by='["month", "feature", "month"]',
        every='"month"',
        mail_to='["ann@example.com", "o.b-c+x@mail.example.com"]',
        url_env='"HOOK"',
        secret_env='"HOOK_SECRET"',
        time_zone='"Europe/Berlin"',
    )

    assert reports(text) == (
        ScheduledReport(
            name="r",
            team="assistants",
            by=("month", "feature"),
            every=ReportInterval.MONTH,
            mail_to=("ann@example.com", "o.b-c+x@mail.example.com"),
            url_env="HOOK",
            secret_env="HOOK_SECRET",
            time_zone="Europe/Berlin",
        ),
    )


def test_a_short_report_is_of_all_teams_by_team_in_utc() -> None:
    (report,) = reports(SHORT)

    assert (report.team, report.by, report.time_zone, report.url_env) == ("*", ("team",), "UTC", "")
    assert reports("") == ()


def test_a_report_can_be_split_by_tags() -> None:
    (report,) = reports(with_(by='["team", "tag:customer"]'))

    assert report.by == ("team", "tag:customer")


def test_a_report_has_the_dimensions_of_cost_reports() -> None:
    assert DIMENSIONS == cost_reports.DIMENSIONS


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ({"name": ""}, "policies.toml:1: reports[0].name: is missing"),
        ({"every": ""}, "every: is missing"),
        ({"every": '"day"'}, 'policies.toml:3: reports.r.every: names "day", which is not known'),
        ({"team": '""'}, "team: is empty"),
        ({"by": "[]"}, "by: is empty"),
        ({"by": '"team"'}, "by: is the string"),
        ({"by": '["team", "fture"]'}, "did you mean feature?"),
        ({"by": '["tag:"]'}, 'names "tag:", which is not known'),
        ({"by": '["tag:a", "tag:b", "tag:c", "tag:d", "tag:e"]'}, "by: has too many tags"),
        ({"mail_to": ""}, "mail_to: is missing, and so is url_env"),
        ({"mail_to": "[]"}, "mail_to: has 0 addresses"),
        ({"mail_to": '["Ann <ann@example.com>"]'}, 'is the string "Ann <ann@example.com>"'),
        ({"mail_to": '["a@b\\r\\nBcc: c@d"]'}, "write an address alone"),
        ({"url_env": '"HOOK"'}, "secret_env: is missing"),
        ({"secret_env": '"HOOK"'}, "url_env: is missing"),
        ({"time_zone": '"Berlin"'}, "which is no time zone"),
        ({"time_zone": '"../etc/passwd"'}, "which is no time zone"),
        ({"to": '["x"]'}, "to: is not known"),
        ({"name": '"r"\n[[reports]]\nname = "r"'}, "names a second report"),
    ],
)
def test_a_mistake_is_named_with_its_line(lines: dict[str, str], problem: str) -> None:
    assert problem in "\n".join(mistakes(with_(**lines)))


def test_a_secret_written_where_a_name_belongs_is_not_repeated() -> None:
    (text,) = mistakes(with_(url_env='"https://hooks.example/xyzzy"', secret_env='"S"'))

    assert "names no environment variable" in text
    assert "xyzzy" not in text


@pytest.mark.parametrize("text", ["", "ann", "@b.c", "a@", "a@-b", "a@b..c", "a b@c", "ä@b.c"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    assert not is_mail_address(text)


def test_a_rule_names_keys_for_every_team_unless_it_says_otherwise():
    table = '[[tags]]\nname = "all"\nkeys = ["job", "stage"]\n'
    table += '[[tags]]\nname = "acme"\nteam = "acme"\nkeys = ["customer"]\n'

    assert read_policies(table).tags == (ALL, ACME)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("", "keys: is missing; write keys = "),
        ("keys = []", "keys: lists 0; write 1 to 4"),
        ('keys = ["a", "b", "c", "d", "e"]', "keys: lists 5; write 1 to 4"),
        ('keys = ["a\'b"]', "which is no key; write up to 40 letters"),
        (f'keys = ["{"k" * 41}"]', "which is no key"),
        ('keys = ["a", "a"]', "which is twice there"),
        ("keys = [3]", "is 3"),
    ],
)
def test_mistakes_in_a_tag_rule_are_named_with_their_fix(keys, problem):
    (mistake,) = mistakes(f'[[tags]]\nname = "a"\n{keys}\n')

    assert problem in mistake


def test_the_first_rule_about_a_team_names_its_keys():
    assert tag_keys([ACME, ALL], "acme") == ("customer",)
    assert tag_keys([ACME, ALL], "other") == ("job", "stage")


def test_a_team_that_no_rule_is_about_has_no_tags():
    assert tag_keys([ACME], "other") == ()
