"""Our own arithmetic on hidden rows, in NumPy float32: one head a file, each a dataclass of its weights."""
