"""An Ollama registry: manifests and blobs over `/v2/`, and the token that a 401 asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from localdecide.core.errors import BadModelFile, ModelNotFound, NotSupported, SourceFailed
from localdecide.core.names import ModelName
from localdecide.store import manifests as media
from localdecide.store.download.net import Net, Transient, host_of, status_failure, transport_failure
from localdecide.store.download.origin import HttpOrigin
from localdecide.store.manifests import Layer, Manifest
from localdecide.store.sources.base import Context, Offer, Part
from localdecide.store.sources.ollama_key import key_path, read_seed, signed_request

if TYPE_CHECKING:
    import httpx

_MAX_MANIFEST = 4 << 20
TRIES = 3  # of small requests: somebody waits for the first line of progress
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class Registry:
    """One repository of a registry. Raises Offline, SourceFailed, ModelNotFound."""

    def __init__(self, net: Net, name: ModelName, *, insecure: bool = False) -> None:
        if name.scheme == "http" and not insecure:
            message = f'{name} would be reached over plain http; say --insecure ("insecure": true) to allow that'
            raise SourceFailed(message, {"source": name.host})
        self.net, self.name, self.insecure = net, name, insecure
        self.base = f"{name.scheme}://{name.host}/v2/{name.namespace}/{name.model}"
        self.headers: dict[str, str] = {}

    def manifest(self) -> bytes:
        """The manifest's exact bytes."""
        url = f"{self.base}/manifests/{self.name.tag}"
        response = self.request("GET", url, headers={"Accept": media.MANIFEST})
        if response.status_code == 404:
            message = f"model '{self.name}' not found on {self.name.host}: pull model manifest: file does not exist"
            raise ModelNotFound(message, {"source": self.name.host})
        if len(response.content) > _MAX_MANIFEST:
            raise SourceFailed(f"{self.name.host}: its manifest of {self.name} is too large")
        return response.content

    def blob(self, layer: Layer) -> HttpOrigin:
        """Where a blob's bytes come from."""
        url = f"{self.base}/blobs/{layer.digest}"
        return HttpOrigin(self.net, url, self.name.host, headers=self.headers, authorize=self.authorize)

    def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        """One small request, with a token if asked for and with patience. 404 is given back, other errors raised."""
        import time

        import httpx

        failures = 0
        with self.net.client(self.name.host, follow_redirects=True) as client:
            while True:
                try:
                    headers = {**self.headers, **more.get("headers", {})}
                    response = client.request(method, url, **{**more, "headers": headers})
                    if response.status_code == 401 and (token := self.authorize(response)):
                        self.headers = {**self.headers, **token}
                        headers = {**headers, **token}
                        response = client.request(method, url, **{**more, "headers": headers})
                    if response.status_code < 400 or response.status_code == 404:
                        return response
                    raise status_failure(response.status_code, response.headers, self.name.host, self.net.patience)
                except httpx.HTTPError as error:
                    failure = transport_failure(error, self.name.host)
                except Transient as error:
                    failure = error
                failures += 1
                if not isinstance(failure, Transient) or failures >= min(self.net.patience.tries, TRIES):
                    raise SourceFailed(f"{failure}", {"source": self.name.host}) from failure
                time.sleep(self.net.patience.delay(failures, failure.retry_after))

    def authorize(self, response: Any) -> Mapping[str, str] | None:
        """A bearer token as the challenge of a 401 describes it; None without a challenge or when it is refused.

        The request for it is signed with the key of this machine's Ollama where there is one.

        The token is asked for only at the registry's own domain and never over http after https.
        """
        import httpx

        challenge = response.headers.get("www-authenticate", "")
        fields = dict(_CHALLENGE.findall(challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in fields:
            return None
        realm = fields["realm"]
        parts = urlsplit(realm)
        if parts.scheme != "https" and not (self.insecure and parts.scheme == "http"):
            raise SourceFailed(f"{self.name.host}: asks for a token over {parts.scheme or 'nothing'}", {})
        if not same_domain(host_of(realm), self.name.host):
            raise SourceFailed(f"{self.name.host}: asks for a token at another place, {host_of(realm)}", {})
        service, scope = fields.get("service", ""), fields.get("scope", "")
        seed = read_seed(key_path())
        if seed:
            url, signature = signed_request(realm, service, scope, seed)
        else:  # a token for everybody
            query = [("service", service), *(("scope", one) for one in scope.split())]
            url, signature = f"{realm}?{urlencode([pair for pair in query if pair[1]])}", ""
        try:
            with self.net.client(host_of(realm)) as client:
                answer = client.get(url, headers={"Authorization": signature} if signature else {})
        except httpx.HTTPError as error:
            raise transport_failure(error, host_of(realm)) from error
        if answer.status_code != 200:
            return None
        try:
            body = answer.json()
            token = body.get("token") or body.get("access_token")
        except (ValueError, AttributeError):
            return None
        return {"Authorization": f"Bearer {token}"} if token else None


def offer(name: ModelName, context: Context) -> Offer:
    """The model of that name in its registry. Raises NotSupported for models of other engines."""
    registry = Registry(context.net, name, insecure=context.insecure)
    data = registry.manifest()
    manifest = Manifest.from_bytes(data)
    check(name, manifest)
    layers = {layer.digest: layer for layer in (manifest.config, *manifest.layers)}
    parts = [
        Part(layer.digest[7:19], layer.digest, layer.size, layer.media_type, lambda layer=layer: registry.blob(layer))  # type: ignore[misc]
        for layer in layers.values()
    ]
    largest_first = sorted(parts, key=lambda part: -(part.size or 0))
    return Offer(source_of(name), name, largest_first, manifest=data)


def check(name: ModelName, manifest: Manifest) -> None:
    """Raises BadModelFile, NotSupported if this is no GGUF model that can be loaded alone."""
    if not manifest.of(media.MODEL):
        raise BadModelFile(f"{name} holds no GGUF (perhaps safetensors for another engine); choose another tag")
    if manifest.of(media.ADAPTER):
        raise NotSupported(f"{name} needs a LoRA adapter, which localdecide does not apply; use a merged model")


def source_of(name: ModelName) -> str:
    """The reference that means this registry and not the library."""
    return f"{'http://' if name.scheme == 'http' else ''}{name.full}"


def same_domain(one: str, other: str) -> bool:
    """Whether two hosts belong together: equal, or names that share their last two labels; hf.co is huggingface.co."""
    one, other = (host.rpartition(":")[0] or host if not host.endswith("]") else host for host in (one, other))
    if one == other or {one, other} == {"hf.co", "huggingface.co"}:
        return True
    numeric = re.fullmatch(r"[\d.]+", one) or re.fullmatch(r"[\d.]+", other)
    return not numeric and "." in one and one.split(".")[-2:] == other.split(".")[-2:]
