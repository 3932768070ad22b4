"""TLS settings for clients that speak plain HTTP to this machine.

A client that is given none loads the certificates that the machine trusts, which takes 25 ms of
processor time each: ``httpx.get(url, verify=PLAIN)`` does not.
"""

import ssl

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
