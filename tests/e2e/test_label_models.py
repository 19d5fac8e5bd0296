"""Every label family from its file to the terminal: create, run, show and list, with a daemon and a runner."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_terminal import Home, home_in

from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec
from localdecide.core.questions import parse_questions
from localdecide.runner.loaded import LoadedModel
from tests.reference.files import CONTEXT, TEMPERATURES, decision_file, head_file
from tests.tiny import build
from tests.tiny.model import write

pytestmark = pytest.mark.slow

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
DESCRIBED = (
    *("--choice", "team: Which team? = billing: payments | technical: bugs"),
    *("--score", "tone: How upset? = calm < annoyed < furious"),
)
PROMPT = "{{ state }}\n{{ instructions }}\n{% for o in options %}{{ o.label }}) {{ o.key }}\n{% endfor %}Answer:\n"
BY_MODELFILE = {
    "tev1": "FAMILY tev1\n",
    "xor": "FAMILY xor\n",
    "pplx-decider-11": "FAMILY pplx-decider\nHEAD ./head.gguf\n",
    "d3": "FAMILY d3\nHEAD ./head.gguf\n",
    "systemone": f'PROMPT """{PROMPT}"""\nLABELS noul Yes No\nTEMPERATURE noul 2.3\nATTENTION bidirectional\n',
    "described-head": f'PROMPT """{PROMPT}"""\nHEAD ./head.gguf\nTEMPERATURE noul 2.3\n',
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = home_in(tmp_path_factory.mktemp("home"))
    yield home
    home.run("shutdown")


def files(name: str, folder: Path) -> dict[str, Any]:
    """Writes the model, its head and its Modelfile; returns what a spec of these files says."""
    said = BY_MODELFILE.get(name, "")
    if name in TEMPERATURES:
        decision_file(name, folder / "m.gguf")
    else:
        build("qwen35", folder / "m.gguf", seed=5)
    (folder / "Modelfile").write_text(f"FROM ./m.gguf\nPARAMETER num_thread 1\n{said}", encoding="utf-8")
    spec: dict[str, Any] = {"path": str(folder / "m.gguf"), "parameters": {"num_thread": 1}}
    if "HEAD" in said:
        rows = np.random.default_rng(3).normal(size=(255, 64)).astype(np.float32) * 0.5
        head_file(folder / "head.gguf", rows, attention="bidirectional", temperature=0.75)
        spec["head"] = str(folder / "head.gguf")
    if "FAMILY" in said:
        spec["family"] = said.split()[1]
    if name == "described-head":
        spec |= {"family": "systemone", "prompt": PROMPT, "temperatures": {"noul": 2.3}}
    if name == "systemone":
        spec |= {"prompt": PROMPT, "labels": {"noul": ("Yes", "No")}, "temperatures": {"noul": 2.3}}
        spec["attention"] = "bidirectional"
    return spec


@pytest.mark.parametrize("name", [*TEMPERATURES, *BY_MODELFILE])
def test_create_and_run(name: str, home: Home, tmp_path: Path) -> None:
    """The terminal's answers are those of family and engine joined by hand; `show` and `list` know the model."""
    spec = files(name, tmp_path)
    created = home.run("create", f"{name}:tiny", "-f", str(tmp_path / "Modelfile"))
    assert created.returncode == 0, created.stderr
    before = decisions(home.run("show", f"{name}:tiny").stdout)
    shown = home.run("run", f"{name}:tiny", STATE, *ARGUMENTS, "--json")
    assert shown.returncode == 0, shown.stderr
    answers = json.loads(shown.stdout)["answers"]
    direct = LoadedModel(ModelSpec("m:latest", **spec), {}, lambda fraction: None)
    readings = direct.decide(Decision(STATE, parse_questions(RAW)), lambda: False).readings

    assert list(answers) == list(readings)
    assert answers["urgent"]["noul"] == pytest.approx(readings["urgent"].probabilities[0], abs=1e-6)
    for key in ("team", "tone"):
        assert list(answers[key]["probabilities"].values()) == pytest.approx(readings[key].probabilities, abs=1e-6)
    assert f"{name}:tiny" in home.run("list").stdout
    about = home.run("show", f"{name}:tiny").stdout
    assert before == decisions(about), "a model that is not loaded says as much of itself"
    rows = {line.split("  ")[2].strip(): line for line in about.splitlines() if line.startswith("    ")}
    assert (spec.get("family") or name) in rows["family"]
    assert {"choice", "noul", "score", "prompt", "temperature of noul", "most options", "input"} <= set(rows)


def decisions(shown: str) -> str:
    """The section of `show` on how a model decides."""
    return shown.partition("  Decisions\n")[2].partition("\n\n")[0]


def test_they_are_decision_models(home: Home, tmp_path: Path) -> None:
    """`/v1/models` and `/api/tags` list what was created, each as a model that gives decisions and nothing else."""
    for name in ("openjev", "xor"):
        folder = tmp_path / name
        folder.mkdir()
        files(name, folder)
        assert home.run("create", f"listed-{name}", "-f", str(folder / "Modelfile")).returncode == 0
    models = {each["id"]: each["architecture"] for each in fetched(home, "/v1/models")["data"]}
    tags = {each["name"]: each["capabilities"] for each in fetched(home, "/api/tags")["models"]}

    for name in ("listed-openjev:latest", "listed-xor:latest"):
        assert models[name]["output_modalities"] == ["decisions"]
        assert tags[name] == ["decision"]


@pytest.mark.parametrize("said", ["", "RENDERER qwen3.5\n"], ids=["header", "renderer"])
def test_an_old_nimble_file_answers_as_a_new_one(said: str, home: Home, tmp_path: Path) -> None:
    """Told by its header's names, with Ollama's renderer or without: bit for bit the answers of the same weights
    with `decision.type`, and where every option is described those of the file with a template too."""
    for name in ("old", "typed", "templated"):
        (tmp_path / name).mkdir()
    names = {"general.basename": "Bespoke-Nimble", "general.finetune": "merged-current"}
    same: dict[str, Any] = {"seed": 1, "max_position_embeddings": CONTEXT}
    build("qwen35", tmp_path / "old" / "m.gguf", metadata=names, **same)
    build("qwen35", tmp_path / "typed" / "m.gguf", metadata={"qwen35.decision.type": "nimble"}, **same)
    decision_file("nimble", tmp_path / "templated" / "m.gguf")
    replies = {}
    for name in ("old", "typed", "templated"):
        text = f"FROM ./m.gguf\nPARAMETER num_thread 1\n{said}"
        (tmp_path / name / "Modelfile").write_text(text, encoding="utf-8")
        created = home.run("create", f"nimble-{name}", "-f", str(tmp_path / name / "Modelfile"))
        assert created.returncode == 0, created.stderr
        for case, questions in (("plain", ARGUMENTS), ("described", DESCRIBED)):
            ran = home.run("run", f"nimble-{name}", STATE, *questions, "--json")
            assert ran.returncode == 0, ran.stderr
            replies[name, case] = json.loads(ran.stdout)["answers"]

    assert replies["typed", "plain"] == replies["old", "plain"]
    assert replies["templated", "described"] == replies["old", "described"]
    assert replies["templated", "plain"] != replies["old", "plain"], "the old prompt describes every option"
    assert "nimble" in decisions(home.run("show", "nimble-old").stdout).splitlines()[0]


def test_a_modelfile_chooses_the_plain_familys_wording(home: Home, tmp_path: Path) -> None:
    """PROMPT vllm/1 is another prompt with its own answers, and `show` names it."""
    build("qwen3", tmp_path / "m.gguf", seed=5)
    answers = []
    for name, said in (("sglang", ""), ("vllm", "PROMPT vllm/1\n")):
        (tmp_path / "Modelfile").write_text(
            f"FROM ./m.gguf\nPARAMETER num_thread 1\nTEMPERATURE noul 8\n{said}", encoding="utf-8"
        )
        assert home.run("create", f"plain-{name}", "-f", str(tmp_path / "Modelfile")).returncode == 0
        ran = home.run("run", f"plain-{name}", STATE, "--yes-no", "urgent: Needs an answer today", "--json")
        assert ran.returncode == 0, ran.stderr
        answers.append(json.loads(ran.stdout)["answers"]["urgent"]["noul"])
        about = home.run("show", f"plain-{name}").stdout
        assert f"{name}/1" in about

    assert abs(answers[0] - answers[1]) > 1e-3


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("FAMILY plain\nLABELS noul Yes No\n", "LABELS"),
        ("FAMILY plain\nATTENTION bidirectional\n", "ATTENTION bidirectional"),
        ("FAMILY plain\nHEAD ./head.gguf\n", "HEAD"),
        ("FAMILY clm\nHEAD ./head.gguf\n", "HEAD"),
        ("FAMILY openjev\nREADOUT noul yesno\n", "READOUT noul yesno"),
        ("TEMPERATURE choice.huge 2\n", r"TEMPERATURE choice\.huge"),
        ("LABELS noul Yes No\n", "PROMPT"),
    ],
)
def test_an_instruction_without_a_meaning_is_refused(said: str, named: str, home: Home, tmp_path: Path) -> None:
    """Run names the instruction; nothing is ignored in silence."""
    build("qwen3", tmp_path / "m.gguf", seed=5)
    head_file(tmp_path / "head.gguf", np.ones((255, 64), np.float32), family="d3")
    (tmp_path / "Modelfile").write_text(f"FROM ./m.gguf\nPARAMETER num_thread 1\n{said}", encoding="utf-8")
    assert home.run("create", "foreign", "-f", str(tmp_path / "Modelfile")).returncode == 0

    ran = home.run("run", "foreign", STATE, *ARGUMENTS)

    assert ran.returncode != 0
    assert re.search(named, ran.stderr)
    assert re.search(f"refused .*{named}", home.run("show", "foreign").stdout)


@pytest.mark.parametrize(
    ("architecture", "said"), [("diffusion-gemma", ""), ("qwen3", "FAMILY diffusion-gemma\n")], ids=["file", "FAMILY"]
)
def test_diffusion_gemma_is_refused_with_what_is_missing(
    architecture: str, said: str, home: Home, tmp_path: Path
) -> None:
    """Created like any model; `run` and `show` say what this llama.cpp lacks, not that a name is unknown to it."""
    tiny = build("qwen3", tmp_path / "qwen3.gguf", seed=5)
    write(tmp_path / "m.gguf", architecture, tiny.tensors, {}, tiny.vocabulary)
    (tmp_path / "Modelfile").write_text(f"FROM ./m.gguf\n{said}", encoding="utf-8")
    assert home.run("create", "canvas", "-f", str(tmp_path / "Modelfile")).returncode == 0

    ran = home.run("run", "canvas", STATE, *ARGUMENTS)

    assert ran.returncode != 0
    assert "no graph for its architecture (a block canvas of 16 tokens" in ran.stderr
    assert re.search("refused .*no graph for its architecture", home.run("show", "canvas").stdout)


@pytest.mark.parametrize("wrong", ["width", "not a number", "zero rows"])
def test_a_head_that_meets_nonsense_gives_no_probabilities(wrong: str, home: Home, tmp_path: Path) -> None:
    """Another base model's width, NaN and rows of zeros: HTTP 500 with the words "numerical error"."""
    zeros = {"output_norm.weight": np.zeros(64, np.float32)} if wrong == "zero rows" else {}
    build("qwen3", tmp_path / "m.gguf", seed=5, tensors=zeros)
    rows = np.ones((255, 32 if wrong == "width" else 64), np.float32)
    rows[3, 3] = np.nan if wrong == "not a number" else 1.0
    head_file(tmp_path / "head.gguf", rows, family="pplx-decider")
    said = "FROM ./m.gguf\nHEAD ./head.gguf\nPARAMETER num_thread 1\n"
    (tmp_path / "Modelfile").write_text(said, encoding="utf-8")
    assert home.run("create", "nonsense", "-f", str(tmp_path / "Modelfile")).returncode == 0
    body = json.dumps({"model": "nonsense", "state": STATE, "questions": RAW}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{home.port}/v1/systemone", body, {"Content-Type": "application/json"}
    )

    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)

    with caught.value as reply:
        assert (500, True) == (reply.code, "numerical error" in reply.read().decode())


def fetched(home: Home, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{home.port}{path}", timeout=20) as reply:
        return json.load(reply)
