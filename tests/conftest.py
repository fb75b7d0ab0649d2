"""Linear algebra on one thread a process: there is a process a core, and small matrices are slower on many threads."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded; kernels and other children have it, too
