"""How connections are made: through which proxy, with which certificates, with how large a receive buffer."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.request import getproxies

if TYPE_CHECKING:
    import httpx

RECEIVE_BUFFER = 512 << 10
"""Bytes that may wait in the kernel for a reader. What waits there when a process dies was sent in vain."""


def transports(context: ssl.SSLContext) -> tuple[httpx.HTTPTransport, dict[str, httpx.HTTPTransport | None]]:
    """The direct way, and by URL pattern the way through a proxy (None: directly).

    Proxies are those of the environment, or the system's where it keeps them elsewhere.
    """
    import httpx

    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)]
    direct = httpx.HTTPTransport(verify=context, socket_options=options)
    ways: dict[str, httpx.HTTPTransport | None] = {}
    found = getproxies()
    exempt = [host.strip() for host in found.get("no", "").split(",") if host.strip()]
    if "*" in exempt:
        return direct, {}
    for scheme in ("http", "https", "all"):
        if url := found.get(scheme):
            url = url if "://" in url else f"http://{url}"
            proxy = httpx.Proxy(url, ssl_context=context if url.startswith("https:") else None)
            ways[f"{scheme}://"] = httpx.HTTPTransport(verify=context, proxy=proxy, socket_options=options)
    ways |= dict.fromkeys(map(pattern, exempt), None)
    return direct, ways


def pattern(host: str) -> str:
    """What an entry of NO_PROXY means: the start of URLs, an address, localhost, or a domain with all that is in it."""
    if "://" in host:
        return host
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return f"all://{host}" if host.lower() == "localhost" else f"all://*{host}"
    return f"all://[{address}]" if address.version == 6 else f"all://{address}"
