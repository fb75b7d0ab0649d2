"""The libraries that results are made with, and what else of a machine they may depend on."""

import functools
import hashlib
import importlib.metadata
import platform

import numpy as np

from pfpne.paths import PACKAGE

NUMERICAL = ("numpy", "scipy", "numba", "llvmlite")  # decide the numbers
DRAWING = ("scikit-learn", "PyXAB", "pandas", "matplotlib", "seaborn", "tabulate", "Jinja2")  # and these the figures


def library_versions() -> dict[str, str]:
    """Return the version of each library that a figure or a table is made with."""
    return {name: importlib.metadata.version(name) for name in (*NUMERICAL, *DRAWING)}


@functools.cache
def numerical_environment() -> dict[str, str]:
    """Return what a result may change with, besides what was asked for and the source.

    NumPy's functions and compiled sums have other last bits with other SIMD instructions.
    """
    libraries = {name: importlib.metadata.version(name) for name in NUMERICAL}
    simd = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {"python": platform.python_version(), "machine": f"{platform.machine()} {' '.join(simd)}", **libraries}


@functools.cache
def worker_identity() -> dict[str, str]:
    """Return what two processes must share for a job to give the same result in both: versions, processor, sources."""
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(PACKAGE.rglob("*.py")))).hexdigest()
    return {**numerical_environment(), "pfpne": sources}
