"""``thriftgate user``: how an end user is named in receipts, reports and budgets."""

from collections.abc import Callable
from typing import Annotated

import typer

from proxy.cli.terminal import Terminal, empty_table


def users(terminal: Terminal) -> typer.Typer:
    """The group of commands about end users."""
    commands = typer.Typer(no_args_is_help=True, help="Look up end users, who are kept as hashes.")
    commands.callback()(lambda: None)
    commands.command("hash")(_hash(terminal))
    return commands


def _hash(terminal: Terminal) -> Callable[..., None]:
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
            from proxy.calls.settlement import Pseudonymizer

            seal = Pseudonymizer(opened.secret)
            chosen = {terminal.team(opened, team)} if team else None
            found = [
                (each.name, seal.pseudonym(each.id, name.encode(errors="surrogateescape")))
                for each in opened.teams.all()
                if chosen is None or each.id in chosen
            ]
        if not found:
            terminal.fail(
                "There is no team yet, and each team has a hash of its own of the same name."
                " `thriftgate key create --team NAME` makes one; so does the first"
                " `thriftgate serve`."
            )
        if len(found) == 1:
            terminal.out.print(found[0][1], soft_wrap=True)
            return
        table = empty_table("team", "user")
        for row in found:
            table.add_row(*row)
        terminal.show(table)

    return user_hash
