"""The readout head (pplx-decider, Decision 3.0): one weight row for each answer code, on the last token's row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localdecide.core.errors import NumericalError
from localdecide.families.heads.arithmetic import Linear, Tensors, checked, finite


@dataclass(frozen=True, slots=True)
class ReadoutHead:
    rows: Linear

    @classmethod
    def load(cls, tensors: Tensors, name: str = "readout") -> ReadoutHead:
        """From `readout.weight` [codes, n_embd]."""
        return cls(Linear.load(tensors, name, bias=False))

    @property
    def codes(self) -> int:
        """How many options one question may have."""
        return len(self.rows.weight)

    def logits(self, rows: Any, options: int) -> tuple[float, ...]:
        """rows [1, n_embd]: the last token's. logit_i = W_i . h for the first `options` codes."""
        if options > self.codes:
            raise NumericalError(f"numerical error: {options} options and a readout of {self.codes} rows")
        hidden = checked(rows, self.rows.width, 1)
        return finite(self.rows(hidden)[0, :options])
