"""Options that a trained prompt has no place for are refused for every family at once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from localdecide.core.decision import Options
from localdecide.core.errors import UnsupportedInput
from localdecide.families import plain
from localdecide.families.base import check_options

TRAINED = SimpleNamespace(NAME="kev")


def test_a_trained_prompt_stays_as_it_is():
    """A published prompt version and a system message are refused by name, plain options are not."""
    check_options(TRAINED, Options(exact=True, temperature=2.0))
    with pytest.raises(UnsupportedInput, match="prompt_format_version"):
        check_options(TRAINED, Options(prompt="sglang/1"))
    with pytest.raises(UnsupportedInput, match="instructions"):
        check_options(TRAINED, Options(system="Be strict."))


def test_the_plain_family_takes_what_it_publishes():
    """Its own versions and a system message pass; an unknown version does not."""
    for prompt in plain.PROMPTS:
        check_options(plain, Options(prompt=prompt, system="Be strict."))
    with pytest.raises(UnsupportedInput):
        check_options(plain, Options(prompt="sglang/2"))
