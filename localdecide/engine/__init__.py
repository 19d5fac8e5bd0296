"""Token ids in, logits and hidden rows out. The only folder that imports llama_cpp."""

import os

# Read once, when the libraries load. OpenMP threads that spin between decodes made a shared machine
# eighteen times slower; a BLAS with threads of its own competes with llama.cpp's.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
