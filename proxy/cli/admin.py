"""``thriftgate admin``: people who sign in to the dashboard, and links; ``thriftgate deploy``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from dashboards.access import ALL_TEAMS_ROLES, Role, sign_in_url
from proxy.cli.terminal import Terminal, empty_table, format_time, sentence

if TYPE_CHECKING:
    from proxy.settings import Settings
    from proxy.store.sql.access.users import UserRecord
    from proxy.store.store import Store

_LINK_MINUTES: Final = 15
_Name = Annotated[str, typer.Argument(help="The person's name.")]
_Role = Annotated[Role, typer.Option(help="What they may see and change.")]
_Teams = Annotated[
    list[str] | None,
    typer.Option("--team", help="A team of theirs, by name or id; may be repeated."),
]


def admin(terminal: Terminal, settings: Callable[[], Settings]) -> typer.Typer:
    """The group of commands about access to the dashboard."""
    commands = typer.Typer(no_args_is_help=True, help="People who sign in to the dashboard.")
    people = typer.Typer(no_args_is_help=True, help="Add, list and change people.")
    _add_link(commands, terminal, settings)
    _add_people(people, terminal, settings)
    _add_disabling(people, terminal)
    commands.add_typer(people, name="user")
    return commands


def deploy_command(terminal: Terminal) -> Callable[..., None]:
    """The command that marks a deploy."""

    def deploy(
        name: Annotated[str, typer.Argument(help="What was deployed, such as shop-4.2.")],
        *,
        at: Annotated[
            datetime | None,
            typer.Option(
                formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"],
                help="Its time, in UTC; now without.",
                show_default=False,
            ),
        ] = None,
    ) -> None:
        """Mark a deploy on every chart over time."""
        now = terminal.now()
        when = None if at is None else at.replace(tzinfo=UTC).timestamp()
        with terminal.store() as store:
            try:
                store.audit.mark_deploy(name, terminal.author, now, when)
            except ValueError as error:
                terminal.fail(str(error))
        terminal.say(f"{name} is marked at {format_time(now if when is None else when)}.")

    return deploy


def _add_link(commands: typer.Typer, terminal: Terminal, settings: Callable[[], Settings]) -> None:
    @commands.command("link")
    def link(
        *,
        user: Annotated[str, typer.Option(help="Whom it signs in.")] = "admin",
        quiet: Annotated[bool, typer.Option("--quiet", help="Print the link alone.")] = False,
    ) -> None:
        """Print a link that signs a person in once; the first administrator is made by it."""
        with terminal.store() as store:
            _print_link(terminal, settings(), store, user, is_quiet=quiet)


def _add_people(people: typer.Typer, terminal: Terminal, settings: Callable[[], Settings]) -> None:
    @people.command("add")
    def add(name: _Name, *, role: _Role = Role.VIEWER, team: _Teams = None) -> None:
        """Add a person, and print a link at which they set their password."""
        with terminal.store() as store:
            teams = _team_ids(terminal, store, role, team)
            try:
                store.users.create(name, role, teams, now=terminal.now(), who=terminal.author)
            except ValueError as error:
                terminal.fail(f"{sentence(error)}.")
            _print_link(terminal, settings(), store, name)

    @people.command("list")
    def list_people() -> None:
        """All people, with their roles and teams."""
        table = empty_table("name", "role", "teams", "signs in by", "added", "state")
        with terminal.store() as store:
            names = terminal.names(store)
            for user in store.users.all():
                teams = "all" if user.role in ALL_TEAMS_ROLES else _team_names(user, names)
                state = "disabled" if user.is_disabled else "active"
                row = (user.name, user.role.value, teams, _ways(user), format_time(user.created))
                table.add_row(*map(Text, (*row, state)))
        terminal.show(table)

    @people.command("role")
    def change_role(
        name: _Name,
        role: Annotated[Role, typer.Argument(help="The new role.")],
        *,
        team: _Teams = None,
    ) -> None:
        """Give a person another role and other teams; it holds within seconds."""
        with terminal.store() as store:
            person = _find(terminal, store, name)
            teams = _team_ids(terminal, store, role, team)
            try:
                store.users.change_role(
                    person.id, role, teams, now=terminal.now(), who=terminal.author
                )
            except ValueError as error:
                terminal.fail(f"{sentence(error)}.")
        terminal.say(f"{name} is {role.value} now.")


def _add_disabling(people: typer.Typer, terminal: Terminal) -> None:
    @people.command("disable")
    def disable(
        name: _Name,
        *,
        undo: Annotated[bool, typer.Option("--undo", help="Let them sign in again.")] = False,
    ) -> None:
        """Let a person sign in no more; their sessions end within seconds."""
        with terminal.store() as store:
            person = _find(terminal, store, name)
            try:
                store.users.set_disabled(
                    person.id, disabled=not undo, now=terminal.now(), who=terminal.author
                )
            except ValueError as error:
                terminal.fail(f"{sentence(error)}.")
        terminal.say(f"{name} may sign in again." if undo else f"{name} may not sign in any more.")


def _print_link(
    terminal: Terminal, settings: Settings, store: Store, name: str, *, is_quiet: bool = False
) -> None:
    try:
        code = store.users.create_link(name, now=terminal.now(), who=terminal.author)
    except ValueError as error:
        terminal.fail(f"{sentence(error)}. `thriftgate admin user list` shows people.")
    url = sign_in_url(settings.browser_url(settings.port), code)
    terminal.out.print(Text(url, style="bold"), soft_wrap=True)
    if not is_quiet:
        terminal.name_ledger(store)
        terminal.say(f"It signs {name} in once, within {_LINK_MINUTES} minutes.")


def _find(terminal: Terminal, store: Store, name: str) -> UserRecord:
    person = store.users.find(name)
    if person is None:
        terminal.fail(
            f"There is no person named {name}. `thriftgate admin user list` shows people."
        )
    return person


def _team_ids(
    terminal: Terminal, store: Store, role: Role, names: list[str] | None
) -> frozenset[str]:
    if role not in ALL_TEAMS_ROLES and not names:
        terminal.fail(f"A {role.value} sees own teams alone: name one or more by --team.")
    return frozenset(terminal.team(store, name) for name in names or ())


def _team_names(person: UserRecord, names: dict[str, str]) -> str:
    return ", ".join(sorted(names.get(team_id, team_id) for team_id in person.teams))


def _ways(person: UserRecord) -> str:
    ways = (("password", person.has_password), ("single sign-on", person.subject is not None))
    return ", ".join(way for way, is_set in ways if is_set) or "link"
