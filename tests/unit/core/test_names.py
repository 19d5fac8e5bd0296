from __future__ import annotations

import pytest

from localdecide.core.errors import InvalidName
from localdecide.core.names import ModelName, is_valid, nearest, parse

GOOD = {
    "kev": ("registry.ollama.ai", "library", "kev", "latest"),
    "kev:4b": ("registry.ollama.ai", "library", "kev", "4b"),
    "aratan/nimble": ("registry.ollama.ai", "aratan", "nimble", "latest"),
    "ollama/nimble:9b": ("registry.ollama.ai", "library", "nimble", "9b"),
    "registry.ollama.ai/library/nimble:9b": ("registry.ollama.ai", "library", "nimble", "9b"),
    "hf.co/ggml-org/Bespoke-Nimble-9B-v3-GGUF:Q8_0": ("hf.co", "ggml-org", "Bespoke-Nimble-9B-v3-GGUF", "Q8_0"),
    "huggingface.co/a.b/c": ("hf.co", "a.b", "c", "latest"),
    "hf.co/o/r:model-Q4_K_M.gguf": ("hf.co", "o", "r", "model-Q4_K_M.gguf"),
    "localhost:5000/me/model:v1": ("localhost:5000", "me", "model", "v1"),
    "http://127.0.0.1:5000/me/model": ("127.0.0.1:5000", "me", "model", "latest"),
    "_a/b-c_d.e:f": ("registry.ollama.ai", "_a", "b-c_d.e", "f"),
    " kev ": ("registry.ollama.ai", "library", "kev", "latest"),
}
BAD = [
    "",
    " ",
    ":",
    "a:",
    ":a",
    "a/b/c/d",
    "/a",
    "a/",
    "-a",
    ".a",
    "a b",
    "é",
    "a.b/c",
    "a:b:c",
    "ftp://h/n/m",
    "a" * 81,
]


@pytest.mark.parametrize("text", GOOD)
def test_parse_fills_in_the_defaults(text: str) -> None:
    """Every part that is left out gets its default, every alias its host."""
    assert parse(text).parts == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_what_the_grammar_forbids_is_refused(text: str) -> None:
    """A name outside the grammar is an error of its own, and `is_valid` agrees."""
    assert not is_valid(text)
    with pytest.raises(InvalidName, match="invalid model name"):
        parse(text)


def test_the_short_form_leaves_out_defaults_and_reads_back() -> None:
    """What people see names the same model again."""
    shown = [str(parse(text)) for text in GOOD if not text.startswith("http://")]

    assert shown[:5] == ["kev:latest", "kev:4b", "aratan/nimble:latest", "nimble:9b", "nimble:9b"]
    assert [parse(text).parts for text in shown] == [parse(text).parts for text in GOOD if "http://" not in text]


def test_scheme_is_kept_apart_from_the_name() -> None:
    """http:// says how to reach the host and is no part of what the model is called."""
    name = parse("http://127.0.0.1:5000/me/model:v1")

    assert ("http", "127.0.0.1:5000/me/model:v1") == (name.scheme, str(name))


def test_key_folds_case() -> None:
    """Names that differ in case only are one name."""
    assert parse("Kev:4B").key == parse("kev:4b").key


def test_lengths_are_bounded() -> None:
    """80 characters are the longest model, tag and namespace; 350 the longest host."""
    assert is_valid("a" * 80)
    assert is_valid("h" * 350 + "/n/m")
    assert not is_valid("h" * 351 + "/n/m")


def test_nearest_name() -> None:
    """A typing error finds its model, with or without a tag; nonsense finds nothing."""
    known = ["smollm2:latest", "kev:latest", "kev:4b"]

    assert nearest("smolm2", known) == "smollm2:latest"
    assert nearest("KEB", known) == "kev:latest"
    assert nearest("kev:4", known) == "kev:4b"
    assert nearest("zzzzzz", known) is None


def test_a_name_is_a_value() -> None:
    """Two spellings of one name are equal and hash alike."""
    assert {parse("kev"), parse("library/kev:latest")} == {ModelName("kev")}
