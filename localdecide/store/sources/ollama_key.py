"""The key of this machine's Ollama, by which its registry knows whose private models may be pulled and pushed."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
import time
from pathlib import Path
from urllib.parse import urlencode

from localdecide.store.sources import ed25519

_MAGIC = b"openssh-key-v1\0"
_KIND = b"ssh-ed25519"


def key_path() -> Path:
    return Path.home() / ".ollama" / "id_ed25519"


def read_seed(path: Path) -> bytes | None:
    """The secret seed of an OpenSSH key file; None for none, another kind of key, or one behind a passphrase."""
    try:
        lines = path.read_text(encoding="ascii").split("\n")
        blob = base64.b64decode("".join(line.strip() for line in lines if line and not line.startswith("-----")))
        if not blob.startswith(_MAGIC):
            return None
        cipher, _, _, rest = _fields(blob[len(_MAGIC) :], 3)
        _, private, _ = _fields(rest[4:], 2)
        kind, public, secret, _ = _fields(private[8:], 3)
    except (OSError, ValueError, struct.error):
        return None
    if cipher != b"none" or kind != _KIND or secret[32:] != public:
        return None
    return secret[:32]


def _fields(data: bytes, count: int) -> tuple[bytes, ...]:
    """So many length-prefixed strings, and what follows them."""
    found: list[bytes] = []
    for _ in range(count):
        length = struct.unpack_from(">I", data)[0]
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return (*found, data)


def signed_request(realm: str, service: str, scope: str, seed: bytes) -> tuple[str, str]:
    """The URL to ask for a token, with time and nonce, and the Authorization header that vouches for it."""
    nonce = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
    fields = [("nonce", nonce), *(("scope", one) for one in scope.split()), ("service", service), ("ts", _now())]
    url = f"{realm}?{urlencode(fields)}"
    empty = base64.b64encode(hashlib.sha256(b"").hexdigest().encode()).decode()
    public = ed25519.public_key(seed)
    wire = struct.pack(">I", len(_KIND)) + _KIND + struct.pack(">I", len(public)) + public
    signature = ed25519.sign(seed, f"GET,{url},{empty}".encode())
    return url, f"{base64.b64encode(wire).decode()}:{base64.b64encode(signature).decode()}"


def _now() -> str:
    return str(int(time.time()))
