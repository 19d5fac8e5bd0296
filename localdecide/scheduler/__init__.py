"""Which models are resident: a pure policy, a short loop, an estimate of memory, the runners' keepers."""
