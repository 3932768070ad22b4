"""Aliases of models by team: what a name means, and what a catalog must not say of it."""

import pytest

from proxy.catalog.load import load
from proxy.catalog.model_aliases import EVERY_TEAM, ModelAliases
from slo.toml.problems import InvalidFile
from tests.proxy.catalog.test_load import SHIPPED

TABLE = "teams.acme.model_aliases"
CLAUDE = """\
[[models]]
id = "claude-x"
upstream = "openai"
[[models]]
id = "claude-y"
upstream = "openai"
"""


def aliases(**targets: str) -> ModelAliases:
    return ModelAliases(
        {name.replace("_", "-").replace("ANY", "*"): to for name, to in targets.items()}
    )


def problems(table: str) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        load(SHIPPED, f"{CLAUDE}[{TABLE}]\n{table}\n")
    text = str(caught.value).replace("catalog.toml:", "").replace(f"{TABLE}.", "")
    return text.splitlines()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("claude-opus", "gpt-x"),
        ("claude-opus-20260131", "gpt-x"),
        ("claude-haiku-4", "small"),
        ("claude-haiku-" + "4" * 243, "small"),
        ("claude-haiku-" + "4" * 244, ""),
        ("claude-haiku-4-20251001", "small"),
        ("claude-sonnet", "large"),
        ("anthropic/claude-sonnet", ""),
        ("gpt-x", ""),
        ("", ""),
    ],
)
def test_a_name_goes_first_then_its_snapshot_then_the_first_pattern_that_matches(
    name: str, target: str
) -> None:
    listed = (
        aliases(claude_ANY="large")
        if name == "claude-sonnet"
        else aliases(claude_haiku_ANY="small", claude_ANY="large", claude_opus="gpt-x")
    )

    assert listed.target(name) == target
    assert ModelAliases().target(name) == ""


def test_a_pattern_takes_its_text_literally_but_for_the_star() -> None:
    listed = ModelAliases({"a.*-[x]": "m"})

    assert (listed.target("a.b-[x]"), listed.target("aab-[x]"), listed.target("a.b-x")) == (
        "m",
        "",
        "",
    )
    assert ModelAliases({"one": "m", "t*": "m"}).names == ("one",)


def test_a_team_has_the_aliases_of_its_table_and_others_those_of_every_team() -> None:
    catalog = load(
        SHIPPED,
        f'{CLAUDE}[teams.acme.model_aliases]\n"claude-x" = "gpt-x"\n'
        '[teams."*".model_aliases]\n"claude-y" = "gpt-x"\n[teams.plain]\n',
    )
    targets = {
        team: [catalog.for_team(team).aliases.target(name) for name in ("claude-x", "claude-y")]
        for team in ("acme", "other", "plain")
    }

    assert set(catalog.team_aliases) == {"acme", EVERY_TEAM, "plain"}
    assert targets == {"acme": ["gpt-x", ""], "other": ["", "gpt-x"], "plain": ["", ""]}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            '"claude-x" = "gpt-y"',
            '8: claude-x: names "gpt-y", which is not known; did you mean gpt-x?',
        ),
        (
            '"claude-x" = 5',
            "8: claude-x: is 5; write one of gpt-x, claude-x, claude-y",
        ),
        (
            '"a b" = "gpt-x"',
            "8: a b: is no name of a model; write at most 256 ASCII characters without spaces",
        ),
        (
            '"fast" = "claude-x"\n"claude-*" = "gpt-x"',
            (
                '8: fast: names "claude-x", which is an alias of "gpt-x";'
                ' write "gpt-x", or "claude-x" = "claude-x" beside it'
            ),
        ),
        (
            '"fast" = "claude-x"\n"claude-x" = "claude-y"\n"claude-y" = "claude-x"',
            (
                "8: fast: is part of a cycle: claude-x → claude-y → claude-x;"
                ' name a model that is no alias, or write "claude-x" = "claude-x" beside it'
            ),
        ),
    ],
    ids=["unknown", "no string", "no name", "chain", "cycle"],
)
def test_a_mistake_is_named_with_its_line_and_its_fix(table: str, problem: str) -> None:
    assert problems(table)[0] == problem


def test_both_models_of_a_cycle_are_named() -> None:
    cycle = problems('"claude-x" = "claude-y"\n"claude-y" = "claude-x"')

    assert [line[:2] for line in cycle] == ["8:", "9:"]
    assert all("is part of a cycle" in line for line in cycle)


def test_an_alias_of_itself_is_the_listed_model_whatever_a_pattern_says() -> None:
    catalog = load(
        SHIPPED,
        f'{CLAUDE}[teams.acme.model_aliases]\n"claude-*" = "claude-y"\n"claude-x" = "claude-x"\n',
    ).for_team("acme")

    assert catalog.aliases.target("claude-z") == "claude-y"
    assert catalog.find("claude-x") is catalog.models["claude-x"]


def test_other_fields_of_a_team_are_not_known() -> None:
    with pytest.raises(InvalidFile, match=r"catalog.toml:2: teams.acme.aliases: is not known"):
        load(SHIPPED, '[teams.acme]\naliases = { a = "gpt-x" }\n')
