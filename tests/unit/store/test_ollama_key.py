from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from crooked_server import Answer, Asked
from fake_registry import registry

from localdecide.store.depot import Depot
from localdecide.store.sources import ed25519, ollama_key
from localdecide.store.store import Store

# RFC 8032, section 7.1: seed, public key, message, signature
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("seed", "public", "message", "signature"), VECTORS)
def test_published_vectors(seed: str, public: str, message: str, signature: str) -> None:
    """Keys and signatures are those of the standard's own examples."""
    assert ed25519.public_key(bytes.fromhex(seed)).hex() == public
    assert ed25519.sign(bytes.fromhex(seed), bytes.fromhex(message)).hex() == signature


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key as Ollama makes it, in a home of its own."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    monkeypatch.setenv("HOME", str(tmp_path))
    path = ollama_key.key_path()
    path.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def test_a_key_file_is_read(key: Path) -> None:
    """The public half made from the seed is the one in the .pub file."""
    seed = ollama_key.read_seed(key)

    assert seed
    stored = base64.b64decode(key.with_suffix(".pub").read_text().split()[1])
    assert stored.endswith(ed25519.public_key(seed))


def test_other_files_are_no_keys(key: Path, tmp_path: Path) -> None:
    """Nothing there, nonsense, a passphrase, another kind of key: no seed and no error."""
    nonsense, locked, rsa = (tmp_path / name for name in ("nonsense", "locked", "rsa"))
    nonsense.write_text("hello")
    for path, kind, phrase in ((locked, "ed25519", "secret"), (rsa, "rsa", "")):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", phrase, "-f", str(path)], check=True)

    assert [ollama_key.read_seed(path) for path in (tmp_path / "none", nonsense, locked, rsa)] == [None] * 4


def test_a_token_is_asked_for_with_a_signature(key: Path, tmp_path: Path) -> None:
    """The registry can check the request with the public key: method, whole address, digest of nothing."""
    seen: list[Asked] = []
    depot = Depot(Store(tmp_path / "models", tmp_path), ollama=())
    with registry() as reg:
        reg.add("me/private:v1")
        reg.token = "t0"
        answer = reg.answer

        def watch(asked: Asked, number: int) -> Answer:
            if asked.path.startswith("/token"):
                seen.append(asked)
            return answer(asked, number)

        reg.server.behave = watch
        name = f"http://{reg.host}/me/private:v1"
        list(depot.pull({"model": name, "insecure": True}, threading.Event()))

    (asked,) = seen
    public, _, signature = asked.headers["authorization"].partition(":")
    empty = base64.b64encode(hashlib.sha256(b"").hexdigest().encode()).decode()
    message = f"GET,{reg.server.url}{asked.path},{empty}".encode()
    seed = ollama_key.read_seed(key)
    assert seed
    assert public == key.with_suffix(".pub").read_text().split()[1]
    assert base64.b64decode(signature) == ed25519.sign(seed, message)
    query = parse_qs(urlsplit(asked.path).query)
    assert query["service"] == ["reg"]
    assert query["scope"] == ["repository:x:pull"]
    assert query["ts"][0].isdigit()
    assert len(query["nonce"][0]) == 22
