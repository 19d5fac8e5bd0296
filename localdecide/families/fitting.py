"""What a Modelfile says of a model must mean something to its family: nothing is ignored in silence.

Families that are read at labels say what they take as `LabelFamily` does; the others in names of their module:

    TAKES      those of PROMPT and HEAD that mean something to it
    READOUT    the name of its one readout
    ATTENTION  how its backbone was trained: causal or bidirectional
    BUCKETS    the names behind `TEMPERATURE type.`, where they are not those of all families
"""

from __future__ import annotations

from localdecide.core.errors import NotSupported
from localdecide.families import head_file
from localdecide.families.base import Family, Model
from localdecide.families.label_family import LabelFamily
from localdecide.families.label_prompts import writer
from localdecide.families.temperatures import KINDS, SIZES


def check_model(family: Family, model: Model) -> None:
    """Raises NotSupported naming the first instruction that has no place in the family."""
    _check_temperatures(family, model)
    _check_head(family, model)
    if isinstance(labels := getattr(family, "family", None), LabelFamily):
        labels.refuse_foreign(model)
        writer(labels, model)  # which needs a prompt that can be read
        return
    spec, name = model.spec, family.NAME
    takes: tuple[str, ...] = getattr(family, "TAKES", ())
    if spec.prompt and "PROMPT" not in takes:
        raise NotSupported(f"PROMPT: the {name} family has a prompt of its own")
    if spec.head and "HEAD" not in takes:
        raise NotSupported(f"HEAD: the {name} family reads no head")
    if spec.labels:
        raise NotSupported(f"LABELS: the {name} family has none to replace; FAMILY systemone with a PROMPT takes them")
    trained = getattr(family, "ATTENTION", "causal")
    if spec.attention not in (None, trained):
        raise NotSupported(f"ATTENTION {spec.attention}: models of the {name} family are {trained}")
    own = getattr(family, "READOUT", None)
    if own is not None:
        for kind, readout in spec.readouts.items():
            if readout.name not in (None, own):
                raise NotSupported(f"READOUT {kind} {readout.name}: the {name} family reads by {own}")


def _check_temperatures(family: Family, model: Model) -> None:
    buckets: tuple[str, ...] = getattr(family, "BUCKETS", SIZES)
    for key in model.spec.temperatures:
        kind, dot, bucket = key.partition(".")
        if kind not in KINDS or (dot and bucket not in buckets):
            raise NotSupported(f"TEMPERATURE {key}: the {family.NAME} family's buckets are {', '.join(buckets)}")


def _check_head(family: Family, model: Model) -> None:
    """A head is of the family that reads it; families read at labels take rows for their codes."""
    if not model.spec.head:
        return
    said = head_file.keys(model).get("family")
    if said not in (None, family.NAME) and family.NAME != "systemone":
        raise NotSupported(f"HEAD: this head is for the {said} family, and the model is read as {family.NAME}")
    if isinstance(getattr(family, "family", None), LabelFamily) and not head_file.has_readout(model):
        raise NotSupported(f"HEAD: its file has no {head_file.READOUT}, which the {family.NAME} family would read")
