from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localdecide.core.errors import InvalidModelfile
from localdecide.core.model import Readout
from localdecide.core.modelfile import (
    Command,
    decode_modelfile,
    format_modelfile,
    from_parts,
    parse_modelfile,
)

FULL = '''# a comment
from ./model.gguf
FROM ./mmproj.gguf

PARAMETER num_ctx 4096
parameter USE_MMAP false
PARAMETER flash_attention on
PARAMETER kv_cache_type f32
PARAMETER keep_alive 1h30m
PARAMETER temperature 0.7
PARAMETER stop "<|im_end|>"
PARAMETER stop "two words"
TEMPLATE """{{ if .System }}
# not a comment
{{ end }}"""
SYSTEM "You are
careful."
PROMPT """  State:
{state}
"""
LICENSE Apache-2.0
LICENSE """MIT
two"""
MESSAGE user "hello there"
CAPABILITY decision
FAMILY kev
HEAD ./kev head.gguf
ATTENTION bidirectional
READOUT choice text TEMPERATURE 4
READOUT noul yesno
TEMPERATURE choice 1.5
TEMPERATURE score.small 0.5
LABELS noul yes no
DESCRIPTION A model that decides.
SIZE 3.0GB
TAG q8_0 hf.co/o/r:Q8_0 4.5GB
TAG big other
INSTALL localdecide[default]
'''


def test_every_command_is_read() -> None:
    """One file with everything gives typed values."""
    file = parse_modelfile(FULL)

    assert file.sources == ["./model.gguf", "./mmproj.gguf"]
    assert file.parameters == {
        "num_ctx": 4096,
        "use_mmap": False,
        "flash_attention": "on",
        "kv_cache_type": "f32",
        "keep_alive": "1h30m",
        "temperature": 0.7,
        "stop": ["<|im_end|>", "two words"],
    }
    assert file.last("template") == "{{ if .System }}\n# not a comment\n{{ end }}"
    assert file.last("system") == "You are\ncareful."
    assert file.last("prompt") == "  State:\n{state}\n"
    assert file.every("license") == ["Apache-2.0", "MIT\ntwo"]
    assert file.last("head") == "./kev head.gguf"
    assert file.readouts == {"choice": Readout("text", 4.0), "noul": Readout("yesno", None)}
    assert file.temperatures == {"choice": 1.5, "score.small": 0.5}
    assert file.labels == {"noul": ("yes", "no")}
    assert file.size == 3_000_000_000
    assert file.tags == {"q8_0": ("hf.co/o/r:Q8_0", 4_500_000_000), "big": ("other", 0)}


def test_what_has_no_effect_is_said() -> None:
    """Commands and parameters of text generation are accepted and named."""
    assert parse_modelfile(FULL).warnings == [
        "MESSAGE has no effect on decisions",
        "parameter 'temperature' has no effect on decisions",
        "parameter 'stop' has no effect on decisions",
    ]


def test_formatting_reads_back() -> None:
    """A formatted file is the same file."""
    commands = parse_modelfile(FULL).commands

    again = parse_modelfile(format_modelfile(commands)).commands

    assert [(c.name, c.value) for c in again] == [(c.name, c.value) for c in commands]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\r'), min_size=1))
def test_any_text_without_quotes_round_trips(text: str) -> None:
    """Line breaks, tabs, leading spaces, `#`, other scripts: a text comes back as it was."""
    file = format_modelfile([Command("from", "m"), Command("system", text)])

    assert parse_modelfile(file).last("system") == text


BAD = {
    "SYSTEM x": "no FROM line",
    "FROM a\nFOO b": '(line 2): command must be one of "from", ',
    "FROM": "(line 1): FROM has no value",
    "FROM a\nPARAMETER nope 1": "(line 2): unknown parameter 'nope'",
    "FROM a\nPARAMETER num_ctx x": "(line 2): invalid int value [x] of parameter num_ctx",
    "FROM a\nPARAMETER num_ctx 1.5": "invalid int value [1.5]",
    "FROM a\nPARAMETER num_ctx 0": "invalid int value [0]",
    "FROM a\nPARAMETER num_ctx inf": "invalid int value [inf]",
    "FROM a\nPARAMETER num_ctx": "invalid int value []",
    "FROM a\nPARAMETER temperature warm": "invalid float value [warm]",
    "FROM a\nPARAMETER use_mmap maybe": "invalid bool value [maybe]",
    "FROM a\nPARAMETER flash_attention 2": "invalid auto|on|off value [2]",
    "FROM a\nPARAMETER kv_cache_type q8_0": "invalid f16|f32 value [q8_0]",
    "FROM a\nPARAMETER keep_alive soon": "invalid duration value [soon]",
    'FROM a\n\nSYSTEM """never': "(line 3): unexpected EOF",
    'FROM a\nSYSTEM "a" b': "(line 2): text after the closing",
    "FROM a\nSYSTEM a\nSYSTEM b": "(line 3): SYSTEM is given twice",
    "FROM a\nMESSAGE robot hi": "message role must be one of",
    "FROM a\nCAPABILITY magic": "unknown capability 'magic'",
    "FROM a\nREADOUT choice": "(line 2): READOUT takes",
    "FROM a\nREADOUT nope text": "(line 2): READOUT takes",
    "FROM a\nREADOUT choice text TEMPERATURE 0": "'0' is not a number above 0",
    "FROM a\nTEMPERATURE choice nan": "'nan' is not a number above 0",
    "FROM a\nTEMPERATURE other 1": "TEMPERATURE takes",
    "FROM a\nLABELS noul yes yes": "LABELS takes",
    "FROM a\nATTENTION sideways": "ATTENTION must be one of causal, bidirectional",
    "FROM a\nSIZE big": "'big' is not a size",
    "FROM a\nTAG x": "TAG takes",
    "FROM a\nADAPTER x": "command must be one of",
    'FROM ""': "FROM has no value",
}


@pytest.mark.parametrize("text", BAD)
def test_errors_name_line_and_reason(text: str) -> None:
    """What cannot be read is refused with the line and what is wrong in it."""
    with pytest.raises(InvalidModelfile) as caught:
        parse_modelfile(text)

    assert BAD[text] in caught.value.message


def test_line_numbers_count_the_lines_of_texts() -> None:
    """An error after a text of several lines is placed right."""
    with pytest.raises(InvalidModelfile, match=r"\(line 5\): unknown parameter"):
        parse_modelfile('FROM a\nSYSTEM """x\ny\n"""\nPARAMETER nope 1\n')


@pytest.mark.parametrize(
    "data", ["FROM é\n".encode(), b"\xef\xbb\xbf" + "FROM é\n".encode(), "FROM é\n".encode("utf-16")]
)
def test_encodings(data: bytes) -> None:
    """UTF-8, UTF-8 with its mark and UTF-16 with its mark are read."""
    assert parse_modelfile(decode_modelfile(data)).sources == ["é"]


def test_other_encodings_are_refused() -> None:
    """Bytes that are no UTF-8 are refused with their place."""
    with pytest.raises(InvalidModelfile, match="not UTF-8: invalid continuation byte at byte 5"):
        decode_modelfile("FROM é\n".encode("latin-1"))


def test_comments_behind_words() -> None:
    """A comment may follow what is made of plain words; in a text and in a parameter `#` is a character."""
    file = parse_modelfile("FROM a # b\nREADOUT choice text TEMPERATURE 4   # why\nSYSTEM x # y\nPARAMETER stop #\n")

    assert file.readouts == {"choice": Readout("text", 4.0)}
    assert (file.sources, file.last("system"), file.parameters) == (["a # b"], "x # y", {"stop": ["#"]})


def test_windows_line_ends() -> None:
    """CRLF files read like LF files."""
    assert parse_modelfile("FROM a\r\nSYSTEM b\r\n").last("system") == "b"


def test_parts_make_a_file_that_reads_back() -> None:
    """What the store keeps of a Modelfile gives that Modelfile again."""
    file = parse_modelfile(FULL)
    parts = {
        "parameters": file.parameters,
        "template": file.last("template"),
        "system": file.last("system"),
        "licenses": file.every("license"),
        "decision": file.decision(),
        "head": file.last("head"),
    }

    again = parse_modelfile(format_modelfile(from_parts(parts, file.sources)))

    assert again.parameters == file.parameters
    assert again.decision() == file.decision()
    assert again.every("license") == file.every("license")
    assert [again.last(name) for name in ("template", "system", "head")] == [
        file.last(name) for name in ("template", "system", "head")
    ]


def test_a_renderer_that_tells_the_family() -> None:
    """RENDERER tev1 is the only word on that family; FAMILY wins over it, and other renderers have no effect."""
    tev1 = parse_modelfile("FROM m.gguf\nRENDERER tev1\n")

    assert ("tev1", []) == (tev1.decision()["family"], tev1.warnings)
    assert parse_modelfile("FROM m.gguf\nRENDERER tev1\nFAMILY plain\n").decision()["family"] == "plain"
    assert "family" not in parse_modelfile("FROM m.gguf\nRENDERER qwen3.5\n").decision()
