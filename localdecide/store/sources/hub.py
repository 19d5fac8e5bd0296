"""The Hugging Face hub: `hf.co/org/repo[:quant or file]`.

Names, tokens, gates and mirrors are the work of the huggingface_hub library; the bytes come through our own
download, which journals and hashes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from localdecide.core import names
from localdecide.core.errors import BadModelFile, ModelNotFound, Offline, SourceFailed
from localdecide.core.modelfile import Command, checked
from localdecide.core.names import HUGGING_FACE, ModelName
from localdecide.store.download.origin import HttpOrigin
from localdecide.store.places import SHARD
from localdecide.store.sources.base import Context, Offer, Part

PREFERRED = "Q4_K_M"
_PROJECTORS = ("F16", "BF16", "Q8_0", "F32")
_FILE_URL = re.compile(r"/([^/]+)/([^/]+)/(?:resolve|blob)/([^/]+)/(.+)")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a repository. digest: `sha256:...` of LFS files, None for small ones kept in git."""

    name: str
    size: int | None
    digest: str | None


def offer(name: ModelName, context: Context, file: str | None = None, revision: str | None = None) -> Offer:
    """The GGUF that a tag means, with its shards and its projector.

    Raises Offline; ModelNotFound for a repository or quant that is not there; SourceFailed for one that wants
    a token or a licence accepted; BadModelFile, with a hint at gguf_convert, for one without a GGUF.
    """
    repo = f"{name.namespace}/{name.model}"
    context.net.check(f"{HUGGING_FACE}/{repo}")
    info = _info(repo, revision)
    files = [_file(sibling) for sibling in info.siblings or []]
    chosen = choose([one for one in files if one.name.lower().endswith(".gguf")], file or name.tag, repo, files)
    headers = _headers()

    def part(one: File) -> Part:
        url = _url(repo, one.name, info.sha)
        return Part(
            one.name, one.digest, one.size, origin=lambda: HttpOrigin(context.net, url, headers=headers), reference=url
        )

    commands = []
    if license := getattr(info.card_data, "license", None):
        commands.append(Command("license", str(license)))
    parts = [part(one) for one in chosen]
    return Offer(
        source=f"{HUGGING_FACE}/{repo}:{name.tag}"
        if file is None
        else f"{_endpoint()}/{repo}/resolve/{revision}/{file}",
        name=name,
        parts=parts,
        modelfile=checked(commands, source_required=False),
        shards=bool(SHARD.fullmatch(chosen[0].name)),
    )


def file_reference(url: str) -> tuple[ModelName, str, str] | None:
    """Repository, revision and file of an URL of a file in the hub; None for any other URL."""
    parts = urlsplit(url)
    hosts = ("hf.co", "huggingface.co", "www.huggingface.co", urlsplit(_endpoint()).netloc)
    match = _FILE_URL.fullmatch(unquote(parts.path))
    if parts.netloc not in hosts or not match:
        return None
    org, repo, revision, file = match.groups()
    return names.parse(f"{HUGGING_FACE}/{org}/{repo}"), revision, file


def choose(ggufs: Sequence[File], tag: str, repo: str, files: Sequence[File] = ()) -> list[File]:
    """The model's file or shards, then its projector if there is one.

    A tag is a file's name or a quant (any case); without one it is Q4_K_M, else the only model there is.
    """
    models = {one.name: one for one in ggufs if not is_projector(one.name)}
    if not models:
        hint = "; convert it with gguf_convert" if any(one.name.endswith(".safetensors") for one in files) else ""
        raise BadModelFile(f"{HUGGING_FACE}/{repo} holds no GGUF{hint}", {"source": repo})
    groups: dict[str, list[File]] = {}
    for one in sorted(models.values(), key=lambda one: one.name):
        match = SHARD.fullmatch(one.name)
        groups.setdefault(f"{match[1]}.gguf" if match else one.name, []).append(one)
    chosen = groups[_pick(groups, tag, repo)]
    if (match := SHARD.fullmatch(chosen[0].name)) and len(chosen) != int(match[3]):
        raise SourceFailed(f"{repo} holds {len(chosen)} of the {int(match[3])} pieces of {match[1]}")
    return [*chosen, *_projector([one for one in ggufs if is_projector(one.name)])]


def _pick(groups: dict[str, list[File]], tag: str, repo: str) -> str:
    if tag == names.TAG:
        preferred = [name for name in groups if quant_of(name) == PREFERRED]
        if preferred or len(groups) == 1:
            return (preferred or list(groups))[0]
        known = ", ".join(sorted(quant_of(name) or name for name in groups))
        raise ModelNotFound(f"{HUGGING_FACE}/{repo} holds several models; name one of: {known}", {"source": repo})
    wanted = tag.lower()
    for name, files in groups.items():
        if wanted in (name.lower(), name.rpartition("/")[2].lower(), files[0].name.lower()):
            return name
    for name in groups:
        if (quant_of(name) or "").lower() == wanted:
            return name
    known = ", ".join(sorted(quant_of(name) or name for name in groups))
    raise ModelNotFound(f"{HUGGING_FACE}/{repo} holds no {tag}; it has: {known}", {"source": repo})


def quant_of(name: str) -> str | None:
    """`Q4_K_M` of `Model-Q4_K_M.gguf`, `folder/model.q8_0.gguf`, `Q8_0/model.gguf`; None if the name has none."""
    pattern = r"(?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_MOE)?|TQ\d_\d)"
    found = re.findall(rf"(?:^|[-._/])({pattern})(?=[-._/]|$)", name.upper().removesuffix(".GGUF"))
    return found[-1] if found else None


def is_projector(name: str) -> bool:
    return "mmproj" in name.lower()


def _projector(files: list[File]) -> list[File]:
    for quant in _PROJECTORS:
        for one in files:
            if quant_of(one.name) == quant:
                return [one]
    return files[:1]


def _file(sibling: Any) -> File:
    lfs = sibling.lfs
    if lfs is not None:
        return File(sibling.rfilename, lfs.size, f"sha256:{lfs.sha256}")
    return File(sibling.rfilename, sibling.size, None)


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def _info(repo: str, revision: str | None) -> Any:
    """The repository's files, sizes and digests. Every error of the library becomes one of ours."""
    from huggingface_hub import HfApi, errors

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise Offline(f"{HUGGING_FACE}/{repo} needs the network, and HF_HUB_OFFLINE forbids it")
    hint = "accept its licence on its page, then set HF_TOKEN or run `hf auth login`"
    try:
        return HfApi(endpoint=_endpoint()).model_info(repo, revision=revision, files_metadata=True, timeout=30)
    except errors.GatedRepoError:
        raise SourceFailed(f"{HUGGING_FACE}/{repo} is gated: {hint}", {"source": _endpoint()}) from None
    except errors.RevisionNotFoundError:
        raise ModelNotFound(f"{HUGGING_FACE}/{repo} has no revision {revision}", {"source": _endpoint()}) from None
    except errors.RepositoryNotFoundError:
        message = f"model '{HUGGING_FACE}/{repo}' not found, or it is private: set HF_TOKEN or run `hf auth login`"
        raise ModelNotFound(message, {"source": _endpoint()}) from None
    except errors.OfflineModeIsEnabled:
        raise Offline(f"{HUGGING_FACE}/{repo} needs the network, and HF_HUB_OFFLINE forbids it") from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "an error")
        raise SourceFailed(f"{_endpoint()}: answered {status} for {repo}", {"source": _endpoint()}) from error
    except Exception as error:  # whichever HTTP client the library uses: no connection, no name, no certificate
        raise SourceFailed(f"{_endpoint()}: {type(error).__name__}: {error}", {"source": _endpoint()}) from error


def _url(repo: str, file: str, revision: str | None) -> str:
    from huggingface_hub import hf_hub_url

    return str(hf_hub_url(repo, file, revision=revision, endpoint=_endpoint()))


def _headers() -> dict[str, str]:
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}
