"""All that every ``thriftgate serve`` imports and reads alike, done once before it is forked."""

import gc
from importlib import import_module

from proxy.configuration import read_catalog
from proxy.services.alerts.http_sender import HttpSender
from proxy.settings import Settings
from proxy.tokens.counter import TokenCounter
from proxy.upstream.http import HttpTransport

for _late in ("proxy.cli.serve", "proxy.cli.gateway_process", "pydantic.v1"):
    import_module(_late)
read_catalog(Settings())
HttpSender()
HttpTransport({}, connections=1, connect_timeout=1.0)
TokenCounter().generated_tokens("", "gpt-4o")
gc.freeze()
