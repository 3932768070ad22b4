"""``thriftgate key``, ``team`` and ``user``: who may call, who pays, and hashes of end users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from proxy.cli.terminal import Terminal, empty_table, find_team, format_time, sentence
from slo.duration import parse_duration

if TYPE_CHECKING:
    from proxy.catalog.catalog import Catalog
    from proxy.store.sql.access.teams import KeyLimits, KeyRecord
    from proxy.store.store import Store


class _Kept(StrEnum):
    KEEP = "keep"
    DROP = "drop"


_Quiet = Annotated[bool, typer.Option("--quiet", help="Print the result and nothing else.")]


def keys(terminal: Terminal, catalog: Callable[[], Catalog]) -> typer.Typer:
    """The group of commands about keys."""
    commands = typer.Typer(no_args_is_help=True, help="Make, list and revoke callers' keys.")
    _add_create(commands, terminal, catalog)
    for name, build in (("list", _list), ("revoke", _revoke)):
        commands.command(name)(build(terminal))
    return commands


def teams(terminal: Terminal) -> typer.Typer:
    """The group of commands about teams."""
    commands = typer.Typer(no_args_is_help=True, help="Make and list teams, keep their prompts.")
    builds = (("create", _team_create), ("list", _team_list), ("prompts", _team_prompts))
    for name, build in builds:
        commands.command(name)(build(terminal))
    return commands


def _add_create(commands: typer.Typer, terminal: Terminal, catalog: Callable[[], Catalog]) -> None:
    @commands.command("create")
    def key_create(  # noqa: PLR0913 - its options
        *,
        team: Annotated[str, typer.Option(help="The team's name or id; a new name makes a team.")],
        existing: Annotated[
            bool, typer.Option("--existing", help="Make no team: refuse a name that is new.")
        ] = False,
        name: Annotated[str, typer.Option(help="What to call the key.")] = "",
        feature: Annotated[str, typer.Option(help="The feature of calls that name none.")] = "",
        expires: Annotated[
            str, typer.Option(help="How long it opens, such as 12h or 90d; for good without.")
        ] = "",
        model: Annotated[
            list[str] | None,
            typer.Option(help="A model that its calls may ask for; may be repeated. All without."),
        ] = None,
        quiet: _Quiet = False,
    ) -> None:
        """Make a key and print it; it is shown this once."""
        if not team.strip():
            terminal.fail("--team is empty: name the team that pays.")
        limits = _limits(terminal, expires, model)
        unknown = list(_unknown_models(catalog(), model)) if model else []
        with terminal.store() as opened:
            owner = find_team(opened, team)
            similar = "" if owner else _similar_teams(opened, team)
            if owner is None and existing:
                terminal.fail(f"There is no team named {team}.{similar}")
            is_new = owner is None
            owner = owner or opened.teams.create(team, now=terminal.now(), who=terminal.author)
            key, secret = opened.teams.create_key(
                owner.id,
                name,
                now=terminal.now(),
                feature=feature,
                limits=limits,
                who=terminal.author,
            )
            if not quiet:
                terminal.name_ledger(opened)
        if quiet:
            terminal.out.print(secret, soft_wrap=True)
            return
        if is_new:
            terminal.say(f"New team {team}: there was none of that name.{similar}")
        terminal.out.print(
            f"Key {key.id} of team {owner.name}:", Text(secret, style="bold"), soft_wrap=True
        )
        terminal.say("It is shown this once; only its hash is kept.", *unknown)


def _unknown_models(catalog: Catalog, models: Iterable[str]) -> Iterator[str]:
    """A note on each model that the catalog does not have, with those that may be meant."""
    for name in models:
        if catalog.find(name) is None:
            near = get_close_matches(name, sorted(catalog.models))
            hint = f" Near it: {', '.join(near)}." if near else ""
            yield f"Note: the catalog has no model {name}; check its name.{hint}"


def _limits(terminal: Terminal, expires: str, models: list[str] | None) -> KeyLimits:
    from proxy.store.sql.access.teams import KeyLimits

    lasts = parse_duration(expires) if expires else None
    if expires and not lasts:
        terminal.fail(f"--expires {expires}: write a time span, such as 12h or 90d.")
    return KeyLimits(
        expires=None if lasts is None else terminal.now() + lasts,
        models=frozenset(models) if models else None,
    )


def _list(terminal: Terminal) -> Callable[..., None]:
    def key_list() -> None:
        """All keys, by team; never their secrets."""
        table = empty_table("team", "key", "name", "ends in", "feature", "state", "models")
        with terminal.store() as opened:
            for team in opened.teams.all():
                for key in opened.teams.keys(team.id):
                    models = (
                        "all" if key.limits.models is None else ", ".join(sorted(key.limits.models))
                    )
                    state = _state(key, terminal.now())
                    table.add_row(team.name, key.id, key.name, key.hint, key.feature, state, models)
        terminal.show(table)

    return key_list


def _state(key: KeyRecord, now: float) -> str:
    """A key's state, and its end where it has one."""
    if key.revoked_at is not None:
        return "revoked"
    expires = key.limits.expires
    if expires is None:
        return "open"
    return f"open until {format_time(expires)}" if now < expires else "expired"


def _revoke(terminal: Terminal) -> Callable[..., None]:
    def key_revoke(key: Annotated[str, typer.Argument(help="The key's id, key_….")]) -> None:
        """Close a key for good; running gateways notice within seconds."""
        with terminal.store() as opened:
            revoked = opened.teams.revoke(key, now=terminal.now(), who=terminal.author)
        if not revoked:
            terminal.fail(
                f"There is no open key with the id {key}. `thriftgate key list` shows them."
            )
        terminal.say(f"Key {key} is revoked.")

    return key_revoke


def _team_create(terminal: Terminal) -> Callable[..., None]:
    def team_create(
        name: Annotated[str, typer.Argument(help="The team's name.")],
        *,
        keep_prompts: Annotated[
            bool, typer.Option("--keep-prompts", help="Store the text of its prompts.")
        ] = False,
    ) -> None:
        """Make a team."""
        with terminal.store() as opened:
            try:
                team = opened.teams.create(
                    name,
                    now=terminal.now(),
                    keeps_prompts=keep_prompts,
                    who=terminal.author,
                )
            except ValueError as error:
                terminal.fail(f"{sentence(error)}.")
            terminal.name_ledger(opened)
        terminal.say(f"Team {team.name} has the id {team.id}.")

    return team_create


def _team_prompts(terminal: Terminal) -> Callable[..., None]:
    def team_prompts(
        name: Annotated[str, typer.Argument(help="The team's name or id.")],
        kept: Annotated[_Kept, typer.Argument(help="Whether prompts of its calls are kept.")],
    ) -> None:
        """Keep the text of a team's prompts from now on, or keep no more of them."""
        with terminal.store() as opened:
            opened.teams.keep_prompts(
                terminal.team(opened, name),
                keeps=kept is _Kept.KEEP,
                now=terminal.now(),
                who=terminal.author,
            )
        terminal.say(f"Team {name}: prompts are {'kept' if kept is _Kept.KEEP else 'not kept'}.")

    return team_prompts


def _team_list(terminal: Terminal) -> Callable[..., None]:
    def team_list() -> None:
        """All teams."""
        table = empty_table("team", "id", "keeps prompts")
        with terminal.store() as opened:
            for team in opened.teams.all():
                table.add_row(team.name, team.id, "yes" if team.keeps_prompts else "no")
        terminal.show(table)

    return team_list


def _similar_teams(opened: Store, name: str) -> str:
    near = get_close_matches(name, [team.name for team in opened.teams.all()])
    return f" Near it: {', '.join(near)}." if near else ""


def users(terminal: Terminal) -> typer.Typer:
    """The group of commands about end users."""
    commands = typer.Typer(no_args_is_help=True, help="Look up end users, who are kept as hashes.")
    commands.callback()(lambda: None)
    commands.command("hash")(_user_hash(terminal))
    return commands


def _user_hash(terminal: Terminal) -> Callable[..., None]:
    def user_hash(
        name: Annotated[str, typer.Argument(help="The user, as its callers write it.")],
        *,
        team: Annotated[str, typer.Option(help="Of this team alone; its name or id.")] = "",
    ) -> None:
        """Print the keyed hash under which receipts and `report --by user` keep an end user.

        Each team has a hash of its own of the same name. With one team, or with --team, the hash
        is printed alone. No hash can be turned back into a name.
        """
        if not name:
            terminal.fail("The name is empty: write it as callers do, in `user` of their calls.")
        with terminal.store() as opened:
            from proxy.prefix.prompts.fingerprints import Pseudonymizer

            seal = Pseudonymizer(opened.secret)
            chosen = {terminal.team(opened, team)} if team else None
            hashes = [
                (
                    known_team.name,
                    seal.pseudonym(known_team.id, name.encode(errors="surrogateescape")),
                )
                for known_team in opened.teams.all()
                if chosen is None or known_team.id in chosen
            ]
        if not hashes:
            terminal.fail(
                "There is no team yet, and each team has a hash of its own of the same name."
                " `thriftgate key create --team NAME` makes one; so does the first"
                " `thriftgate serve`."
            )
        if len(hashes) == 1:
            terminal.out.print(hashes[0][1], soft_wrap=True)
            return
        table = empty_table("team", "user")
        for row in hashes:
            table.add_row(*row)
        terminal.show(table)

    return user_hash
