"""The one door to other machines: proxies, certificates, patience, and the rule of LOCALDECIDE_OFFLINE."""

from __future__ import annotations

import email.utils
import functools
import os
import platform
import random
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from localdecide import __version__
from localdecide.core.errors import Offline, SourceFailed
from localdecide.store.download.transport import transports

if TYPE_CHECKING:
    import httpx

AGENT = f"localdecide/{__version__} ({platform.machine()} {platform.system().lower()})"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to bear with a bad line.

    tries: failures in a row without a byte of progress; pause: seconds after the first, doubled each time
    up to `longest`; connect, stall: seconds without a connection, without a byte; wait: the longest
    Retry-After that is honoured.
    """

    tries: int = 6
    pause: float = 1.0
    longest: float = 30.0
    connect: float = 10.0
    stall: float = 30.0
    wait: float = 300.0

    def delay(self, failures: int, retry_after: float | None) -> float:
        """Seconds before the next try."""
        if retry_after is not None:
            return retry_after
        return float(min(self.pause * 2 ** (failures - 1), self.longest) * random.uniform(0.75, 1.25))


class Transient(Exception):
    """A failure that another try may cure. retry_after: seconds the server asked for, or None."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Net:
    """Makes HTTP clients. Proxies come from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY; certificates from the
    system and from SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE."""

    def __init__(self, *, offline: bool = False, patience: Patience | None = None) -> None:
        self.offline = offline
        self.patience = patience or Patience()

    def check(self, what: str) -> None:
        """Raises Offline if the network must not be used."""
        if self.offline:
            raise Offline(f"{what} needs the network, and LOCALDECIDE_OFFLINE=1 forbids it", {"what": what})

    def client(self, what: str, **more: Any) -> httpx.Client:
        """A client for `what` (named in errors). Raises Offline. Connects to nothing yet."""
        self.check(what)
        import httpx

        patience = self.patience
        timeout = httpx.Timeout(patience.stall, connect=patience.connect)
        direct, mounts = transports(_certificates(tuple(os.environ.get(variable, "") for variable in _CERTIFICATES)))
        return httpx.Client(
            transport=direct,
            mounts=mounts,
            timeout=timeout,
            headers={"User-Agent": AGENT, "Accept-Encoding": "identity"},
            max_redirects=10,
            **more,
        )


_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@functools.lru_cache(maxsize=4)
def _certificates(given: tuple[str, ...]) -> ssl.SSLContext:
    """The system's and certifi's authorities and those that the variables name; reading them takes a while."""
    import httpx

    context = httpx.create_ssl_context()
    context.load_default_certs()
    for variable, path in zip(_CERTIFICATES, given, strict=True):
        if path:
            try:
                context.load_verify_locations(*((None, path) if os.path.isdir(path) else (path,)))
            except OSError as error:
                raise SourceFailed(f"{variable}={path}: cannot read these certificates: {error}") from None
    return context


def transport_failure(error: Exception, source: str) -> Exception:
    """What a failure below HTTP means: Transient, or SourceFailed where trying again cannot help."""
    import httpx

    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "set SSL_CERT_FILE to your organisation's certificates if it inspects TLS"
            return SourceFailed(f"{source}: its certificate is not trusted ({cause.verify_message}); {hint}")
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL | httpx.TooManyRedirects):
        return SourceFailed(f"{source}: {error}", {"source": source})
    if isinstance(error, httpx.ProxyError):
        return Transient(f"{source}: the proxy failed: {error}")
    if any(isinstance(one, socket.gaierror) for one in chain):
        message = f"{source}: its name cannot be resolved; is this machine online, or behind a proxy (HTTPS_PROXY)?"
        return Transient(message)
    if isinstance(error, httpx.ReadTimeout):
        return Transient(f"{source}: no byte for a while")
    return Transient(f"{source}: {type(error).__name__}: {error}".rstrip(": "))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def status_failure(status: int, headers: Mapping[str, str], source: str, patience: Patience) -> Exception:
    """What a status of 400 or more means: Transient (429, 408, 5xx), else SourceFailed."""
    details = {"source": source, "status": status}
    if status in (408, 425, 429) or status >= 500:
        wait = retry_after(headers.get("retry-after"))
        if wait is not None and wait > patience.wait:
            return SourceFailed(f"{source}: answered {status} and asks to come back in {wait:.0f} seconds", details)
        return Transient(f"{source}: answered {status}", wait)
    if status in (401, 403):
        return SourceFailed(f"{source}: access denied ({status})", details)
    if status in (404, 410):
        return SourceFailed(f"{source}: not found ({status})", details)
    return SourceFailed(f"{source}: answered {status}", details)


def retry_after(value: str | None) -> float | None:
    """Seconds from now of a Retry-After header, in either of its forms; None for anything else."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
