"""The sockets the daemon listens on: both loopbacks, one address, or what systemd hands over."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Mapping

from localdecide.server.guards import is_local_address
from localdecide.settings import Settings

BACKLOG = 1024
# Numbers of the first socket that systemd hands over, by its protocol.
FIRST_FD = 3
NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


class CannotListen(Exception):
    """The daemon cannot have its address; the message says why and what to do."""


class AddressInUse(CannotListen):
    """Somebody else has the port."""


def open_sockets(settings: Settings, environment: Mapping[str, str] | None = None) -> list[socket.socket]:
    """Listening sockets for `settings.host`, or systemd's where it started us. Raises CannotListen."""
    environment = os.environ if environment is None else environment
    found = inherited(environment)
    if not found:
        host, port = settings.address
        found = loopbacks(port) if host in ("127.0.0.1", "localhost") else [bind(host, port)]
    try:
        check_reach(found, settings)
    except CannotListen:
        close(found)
        raise
    return found


def inherited(environment: Mapping[str, str]) -> list[socket.socket]:
    """Sockets of systemd's socket activation; none where it did not start this very process."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = environment.get("LISTEN_FDS", "0")
    return [socket.socket(fileno=FIRST_FD + index) for index in range(int(count) if count.isdigit() else 0)]


def loopbacks(port: int) -> list[socket.socket]:
    """127.0.0.1 and, where the machine has it, ::1 on the same port.

    `localhost` is ::1 first on many systems; a client that tries it must not wait, nor reach another program.
    """
    first = bind("127.0.0.1", port)
    try:
        return [first, bind("::1", first.getsockname()[1])]
    except AddressInUse:
        first.close()
        raise
    except CannotListen:
        return [first]


def bind(host: str, port: int) -> socket.socket:
    """One listening socket. `host` is an address or a name. Raises CannotListen."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise CannotListen(f"LOCALDECIDE_HOST={host!r} is not an address of this machine: {error.strerror}") from None
    try:
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"cannot make a socket for {host}: {error.strerror}") from None
    try:
        if sys.platform == "win32":
            # There SO_REUSEADDR would let two daemons share a port.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::1":
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if error.errno in (errno.EADDRINUSE, errno.EACCES) and port >= 1024:
            raise AddressInUse(f"{where} is in use") from None
        raise CannotListen(f"cannot listen on {where}: {error.strerror}") from None
    return made


def check_reach(sockets: list[socket.socket], settings: Settings) -> None:
    """Refuses to face a network without a key, unless the user said so."""
    if settings.api_key or settings.allow_remote:
        return
    for sock in sockets:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            continue
        host = sock.getsockname()[0]
        if host in ("0.0.0.0", "::") or not is_local_address(host):
            raise CannotListen(
                f"{host} can be reached from other machines: set LOCALDECIDE_API_KEY to a key that they must send,"
                " or LOCALDECIDE_ALLOW_REMOTE=1 to let anybody use this daemon"
            )


def urls(sockets: list[socket.socket]) -> list[str]:
    """Where the sockets answer, for the log."""
    found = []
    for sock in sockets:
        name = sock.getsockname()
        if sock.family == socket.AF_INET6:
            found.append(f"http://[{name[0]}]:{name[1]}")
        elif sock.family == socket.AF_INET:
            found.append(f"http://{name[0]}:{name[1]}")
        else:
            found.append(f"unix:{name}")
    return found


def close(sockets: list[socket.socket]) -> None:
    """Closes them all."""
    for sock in sockets:
        sock.close()
