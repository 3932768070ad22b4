"""``thriftgate serve``: what it needs is checked before the gateway itself is imported."""

from proxy.cli import session
from proxy.cli.storage_checks import folder_problem


def serve() -> None:
    """Take calls until told to stop.

    With OPENAI_API_KEY or ANTHROPIC_API_KEY set there is nothing else to configure: on the first
    start a team named `default` and a key for it are made, and the key is printed once.
    """
    settings = session.settings()
    known = session.catalog(settings)
    policies = session.policies(settings, known)
    if why := folder_problem(settings.folder):
        session.fail(why)
    from proxy.cli.gateway_process import run_gateway

    run_gateway(settings, known, policies)
