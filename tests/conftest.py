"""Linear algebra on one thread a process: there is a process a core, and small matrices are slower on many threads."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded; kernels and other children have it, too

# Evaluations of a client by which an algorithm, with three, has communicated twice or more; 60 where none is said.
HORIZONS = {"fed1-ucb": 4_000, "fn-ucb": 20}
