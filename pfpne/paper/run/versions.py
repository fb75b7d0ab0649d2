"""The libraries that results are made with, and other properties of a machine that results may depend on."""

import functools
import hashlib
import importlib.metadata
import platform

import numpy as np

from pfpne.paths import PACKAGE_FOLDER

NUMERICAL = ("numpy", "scipy", "numba", "llvmlite")  # decide the numbers
DRAWING = ("scikit-learn", "PyXAB", "pandas", "matplotlib", "seaborn", "tabulate", "Jinja2")  # and these the figures


def library_versions() -> dict[str, str]:
    """Return the version of each library that a figure or a table is made with."""
    return {name: importlib.metadata.version(name) for name in (*NUMERICAL, *DRAWING)}


@functools.cache
def numerical_environment() -> dict[str, str]:
    """Return everything that a result may depend on besides the request and the source.

    The last bits of NumPy's functions and of compiled sums depend on the processor's SIMD instructions.
    """
    libraries = {name: importlib.metadata.version(name) for name in NUMERICAL}
    simd = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {"python": platform.python_version(), "machine": f"{platform.machine()} {' '.join(simd)}", **libraries}


@functools.cache
def worker_identity() -> dict[str, str]:
    """Return the properties that give a job the same result in two processes: versions, processor, sources."""
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(PACKAGE_FOLDER.rglob("*.py")))).hexdigest()
    return {**numerical_environment(), "pfpne": sources}
