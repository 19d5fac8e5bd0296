"""Every family with a head from upstream's file to the terminal: create (and split), run, show, export."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_terminal import Home, home_in

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import head_models as hm
import test_clef_omni_reference as clef_omni
import test_gliner_reference as gliner
import torch
import torch_heads
import transformers
from gliner_vocabulary import write_backbone
from head_files import BUILDERS, clef_files, ollama_clef_files

from localdecide.core.decision import Decision
from localdecide.core.questions import parse_questions
from tests.tiny import build

pytestmark = [pytest.mark.slow, pytest.mark.reference]

STATE = "My card was charged twice for one order. Straße 東京"
RAW = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "payments", "technical": "bugs"}},
    "urgent": {"type": "noul", "instructions": "Needs an answer today"},
    "tone": {"type": "score", "instructions": "How upset?", "criteria": ["calm", "annoyed", "furious"]},
}
ARGUMENTS = (
    *("--choice", "team: Which team? = billing: payments | technical: bugs"),
    *("--yes-no", "urgent: Needs an answer today"),
    *("--score", "tone: How upset? = calm < annoyed < furious"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = home_in(tmp_path_factory.mktemp("home"))
    yield home
    home.run("shutdown")


# Upstream's judge reads none of Ollama's files, so this builder is not one of BUILDERS.
FILES = BUILDERS | {"clef-ollama": ollama_clef_files}


@pytest.mark.parametrize("name", FILES)
def test_from_file_to_terminal(name: str, home: Home, tmp_path: Path) -> None:
    """The terminal's answers are those of backbone and head joined by hand; export gives the file back."""
    files = FILES[name](tmp_path)
    (tmp_path / "Modelfile").write_text(f"FROM {files.whole}\nPARAMETER num_thread 1\n", encoding="utf-8")
    created = home.run("create", f"{name}:tiny", "-f", str(tmp_path / "Modelfile"))
    assert created.returncode == 0, created.stderr
    before = decisions(home, f"{name}:tiny")
    shown = home.run("run", f"{name}:tiny", STATE, *ARGUMENTS, "--json")
    assert shown.returncode == 0, shown.stderr
    answers = json.loads(shown.stdout)["answers"]
    direct = hm.load(files.backbone, files.head, kv_cache_type="f16", flash_attention="auto", num_thread=1)
    readings = direct.decide(Decision(STATE, parse_questions(RAW)), lambda: False).readings

    assert answers["urgent"]["noul"] == pytest.approx(readings["urgent"].probabilities[0], abs=1e-6)
    for key in ("team", "tone"):
        values = dict(zip(parse_questions(RAW)[key].keys, readings[key].probabilities, strict=True))
        assert answers[key]["probabilities"] == pytest.approx(values, abs=1e-6)
    assert files.family in before
    assert before == decisions(home, f"{name}:tiny")
    assert {"family", "choice", "labels", "input"} <= {line.split()[0] for line in before.splitlines()}
    out = tmp_path / "back.gguf"
    exported = home.run("export", f"{name}:tiny", str(out))
    assert exported.returncode == 0, exported.stderr
    assert hashlib.sha256(out.read_bytes()).digest() == hashlib.sha256(files.whole.read_bytes()).digest()


def decisions(home: Home, name: str) -> str:
    """The section of `show` on how a model decides."""
    return home.run("show", name).stdout.partition("  Decisions\n")[2].partition("\n\n")[0]


def terminal(home: Home, name: str) -> dict[str, list[float]]:
    """Probabilities of the three questions as `run` prints them."""
    ran = home.run("run", name, STATE, *ARGUMENTS, "--json")
    assert ran.returncode == 0, ran.stderr
    answers = json.loads(ran.stdout)["answers"]
    several = {key: list(answers[key]["probabilities"].values()) for key in ("team", "tone")}
    return several | {"urgent": [answers["urgent"]["noul"]]}


def test_ollamas_clef_file_answers_as_upstreams(home: Home, tmp_path: Path) -> None:
    """The same weights in both layouts, each split by create: equal answers to 1e-5."""
    found = []
    for name, build_files in (("upstream", clef_files), ("ollama", ollama_clef_files)):
        whole = build_files(tmp_path).whole
        (tmp_path / "Modelfile").write_text(f"FROM {whole}\nPARAMETER num_thread 1\n", encoding="utf-8")
        created = home.run("create", f"clef-of-{name}", "-f", str(tmp_path / "Modelfile"))
        assert created.returncode == 0, created.stderr
        found.append(terminal(home, f"clef-of-{name}"))
    for key, values in found[0].items():
        assert found[1][key] == pytest.approx(values, abs=1e-5)


def test_clef_omni_from_its_checkpoint_to_the_terminal(home: Home, tmp_path: Path) -> None:
    """Converted, created from the converter's own Modelfile and run: the answers of the parts joined by hand."""
    clef_omni.converted(tmp_path)
    modelfile = tmp_path / "out" / "Modelfile"
    modelfile.write_text(modelfile.read_text(encoding="utf-8") + "\nPARAMETER num_thread 1\n", encoding="utf-8")
    created = home.run("create", "clef-omni:tiny", "-f", str(modelfile))
    assert created.returncode == 0, created.stderr
    before = decisions(home, "clef-omni:tiny")
    answers = terminal(home, "clef-omni:tiny")
    files = clef_omni.sorted_files(tmp_path / "out")
    direct = hm.load(*files, kv_cache_type="f16", flash_attention="auto", num_thread=1)
    readings = direct.decide(Decision(STATE, parse_questions(RAW)), lambda: False).readings

    assert answers["urgent"] == pytest.approx(readings["urgent"].probabilities[:1], abs=1e-6)
    # clef lists the names of options sorted, which these are.
    for key in ("team", "tone"):
        assert answers[key] == pytest.approx(readings[key].probabilities, abs=1e-6)
    assert before.splitlines()[0].split()[1] == "clef"
    assert before == decisions(home, "clef-omni:tiny")
    assert "clef-omni:tiny" in home.run("list").stdout


def clm_files(folder: Path) -> tuple[Path, Path]:
    backbone = build("qwen3", folder / "m.gguf", seed=8)
    head = torch_heads.scramble(torch_heads.BiEncoder(64, 48, 3, 24, True, False), 21, 2.0)
    keys = {"localdecide.head.family": "clm", "localdecide.head.temperature": 2.0}
    return backbone.path, hm.write_head(folder / "head.gguf", torch_heads.arrays(head), keys)


def gliner_files(folder: Path) -> tuple[Path, Path]:
    encoder = torch_heads.scramble(transformers.DebertaV2Model(transformers.DebertaV2Config(**gliner.CONFIG)), 31, 1.5)
    classifier = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.ReLU(), torch.nn.Linear(96, 1))
    tensors = torch_heads.arrays(encoder)
    words = tensors.pop("embeddings.word_embeddings.weight")
    scrambled = torch_heads.arrays(torch_heads.scramble(classifier, 32, 3.0))
    tensors |= {f"classifier.{name}": array for name, array in scrambled.items()}
    keys = {f"localdecide.head.{key}": value for key, value in gliner.KEYS.items()}
    return write_backbone(folder / "m.gguf", words), hm.write_head(folder / "head.gguf", tensors, keys)


@pytest.mark.parametrize(("family", "files"), [("clm", clm_files), ("gliner-decide", gliner_files)])
@pytest.mark.parametrize("named", [True, False], ids=["FAMILY", "by its head"])
def test_a_head_of_our_own_layout(family: str, files: Any, named: bool, home: Home, tmp_path: Path) -> None:
    """HEAD with or without FAMILY, from create to the terminal: the answers of the parts joined by hand."""
    model, head = files(tmp_path)
    said = f"FAMILY {family}\n" if named else ""
    text = f"FROM {model}\nHEAD {head}\nPARAMETER num_thread 1\n{said}"
    (tmp_path / "Modelfile").write_text(text, encoding="utf-8")
    created = home.run("create", f"{family}:tiny", "-f", str(tmp_path / "Modelfile"))
    assert created.returncode == 0, created.stderr
    before = decisions(home, f"{family}:tiny")
    shown = home.run("run", f"{family}:tiny", STATE, *ARGUMENTS, "--json")
    assert shown.returncode == 0, shown.stderr
    answers = json.loads(shown.stdout)["answers"]
    direct = hm.load(model, head, family=family, kv_cache_type="f16", flash_attention="auto", num_thread=1)
    readings = direct.decide(Decision(STATE, parse_questions(RAW)), lambda: False).readings

    assert answers["urgent"]["noul"] == pytest.approx(readings["urgent"].probabilities[0], abs=1e-6)
    for key in ("team", "tone"):
        values = dict(zip(parse_questions(RAW)[key].keys, readings[key].probabilities, strict=True))
        assert answers[key]["probabilities"] == pytest.approx(values, abs=1e-6)
    assert family in before.splitlines()[0]
    assert before == decisions(home, f"{family}:tiny"), "a model that is not loaded says as much of itself"
    assert f"{family}:tiny" in home.run("list").stdout


def test_an_answer_says_what_it_did_not_read(home: Home, tmp_path: Path) -> None:
    """A state over the limit of training loses its end, and the answer counts the tokens that were lost."""
    model, head = clm_files(tmp_path)
    (tmp_path / "Modelfile").write_text(f"FROM {model}\nHEAD {head}\nPARAMETER num_ctx 256\n", encoding="utf-8")
    assert home.run("create", "short:tiny", "-f", str(tmp_path / "Modelfile")).returncode == 0
    found = []
    for state in (STATE, STATE * 40):
        reply = json.loads(home.run("run", "short:tiny", state, *ARGUMENTS, "--json").stdout)
        found.append([answer.get("x_truncated", 0) for answer in reply["answers"].values()])

    assert found[0] == [0, 0, 0]
    assert min(found[1]) > 100


def test_joint_answers_say_so(home: Home, tmp_path: Path) -> None:
    """clef's answers depend on their companions: the reply and `show` say so."""
    files = BUILDERS["clef"](tmp_path)
    (tmp_path / "Modelfile").write_text(f"FROM {files.whole}\n", encoding="utf-8")
    assert home.run("create", "joint:tiny", "-f", str(tmp_path / "Modelfile")).returncode == 0
    reply = json.loads(home.run("run", "joint:tiny", STATE, *ARGUMENTS, "--json").stdout)
    assert reply["x_joint"] is True
    assert "depend on all questions of a request" in home.run("show", "joint:tiny").stdout
