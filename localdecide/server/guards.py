"""Who may call: pure checks of a request's head. Each returns, or raises an error of the core.

Three different dangers. A web page whose name was re-pointed at 127.0.0.1 (DNS rebinding) is caught by
its Host. A web page that simply posts here is caught by its Origin. A machine on the network is caught
by the key.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import urlsplit

from localdecide.core.errors import Forbidden, Unauthorized

# Desktop shells give their pages these schemes; no web site can have them.
APP_SCHEMES = frozenset({"app", "file", "tauri", "vscode-webview", "vscode-file"})
LOCAL_SUFFIXES = (".localhost", ".local", ".internal")
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})


def check_host(host: str, origins: Sequence[str] = ()) -> None:
    """Refuses a Host that a public DNS name could have brought here. An IP address cannot be rebound.

    Allowed: nothing, addresses, localhost, this machine's name, names under .localhost, .local and
    .internal, and the hosts of `origins` (LOCALDECIDE_ORIGINS).
    """
    name = hostname(host)
    if name in ("", "localhost") or name.endswith(LOCAL_SUFFIXES) or is_address(name):
        return
    if name == socket.gethostname().lower():
        return
    if any(name == hostname(urlsplit(origin).netloc) for origin in origins):
        return
    raise Forbidden(
        f"host {name[:100]!r} is not this machine; to serve it under that name, list http://{name[:100]}"
        " in LOCALDECIDE_ORIGINS"
    )


def check_origin(origin: str | None, host: str, origins: Sequence[str] = ()) -> None:
    """Refuses a browser page from elsewhere. `origins` may hold wildcards, such as `chrome-extension://*`."""
    if origin is None or origin_allowed(origin, host, origins):
        return
    raise Forbidden(
        f"origin {origin[:200]!r} may not call this daemon; to allow it, add it to LOCALDECIDE_ORIGINS and restart"
    )


def origin_allowed(origin: str, host: str, origins: Sequence[str]) -> bool:
    """Loopback pages, desktop shells, the daemon's own page, and what the user listed."""
    if any(allowed == "*" or fnmatchcase(origin, allowed.rstrip("/")) for allowed in origins):
        return True
    try:
        parts = urlsplit(origin)
        name = hostname(parts.netloc)
    except ValueError:
        return False
    if parts.scheme in APP_SCHEMES:
        return True
    if parts.scheme not in ("http", "https"):
        return False
    local = name == "localhost" or name.endswith(".localhost") or is_local_address(name)
    return local or (bool(host) and parts.netloc.lower() == host.lower())


def check_key(key: str, authorization: str | None, x_api_key: str | None, path: str) -> None:
    """Refuses a request without the daemon's key, where it has one. Bearer or x-api-key, either is enough."""
    if not key or path in OPEN_PATHS:
        return
    scheme, _, bearer = (authorization or "").partition(" ")
    given = [bearer.strip()] if scheme.lower() == "bearer" and bearer.strip() else []
    if x_api_key:
        given.append(x_api_key.strip())
    if not given:
        raise Unauthorized("an API key is required: send it as Authorization: Bearer KEY or as x-api-key")
    if not any(hmac.compare_digest(candidate.encode(), key.encode()) for candidate in given):
        raise Unauthorized("the API key is wrong")


def hostname(netloc: str) -> str:
    """The name in `host[:port]`, lower case, without brackets or a closing dot."""
    bare = netloc.strip().lower().rpartition("@")[2]
    if bare.startswith("["):
        return bare[1:].partition("]")[0]
    name = bare.partition(":")[0] if bare.count(":") == 1 else bare
    return name.removesuffix(".")


@lru_cache(maxsize=64)
def is_address(name: str) -> bool:
    """Whether `name` is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_local_address(name: str) -> bool:
    """Whether `name` is a loopback or unspecified address."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
