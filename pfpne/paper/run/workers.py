"""Many jobs on worker processes: the same results for any workers, in whatever order they finish.

Workers are processes of this machine (joblib), or a Dask scheduler's workers, on any number of machines.
"""

import contextlib
import ctypes
import functools
import os
import platform
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from threadpoolctl import ThreadpoolController

from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.versions import worker_identity
from pfpne.validation import check, check_count


class WorkersError(RuntimeError):
    """Workers could not be had, or one was killed. The message says what to do."""


class Stopped(KeyboardInterrupt):
    """Somebody interrupted the jobs. The message says how to go on."""

    def _render_traceback_(self):  # IPython shows this instead of a traceback
        return [f"{self}"]


def check_scheduler(name: str, x) -> None:
    """Raise ValueError unless x is the address of a Dask scheduler."""
    is_address = isinstance(x, str) and len(x) < 1000 and re.fullmatch(r"[\w.:/\[\]-]+", x, re.ASCII)
    try:
        parts = urlsplit(x if is_address else "")
        is_address = parts.scheme in ("tcp", "tls", "ucx", "ws", "wss") and parts.hostname and parts.port
    except ValueError:  # no port can be so
        is_address = False
    check(is_address, name, "the address of a Dask scheduler, such as tcp://127.0.0.1:8786", x)


def run_unordered(
    function: Callable,
    arguments: list[tuple],
    n_jobs: int | str | None = None,
    bar: Callable[[int, int], None] | None = None,
    here: bool = False,
) -> Iterator[tuple[int, object]]:
    """Call a function with each of many arguments, and return an iterator over the results, as each finishes.

    Parameters
    ----------
    function : callable
        It must be one that workers can import.
    arguments : list of tuple
        One tuple per job; jobs begin in this order.
    n_jobs : int or str, optional
        A number of processes: 1 for this process, None for one per processor that this process may use. Or the address
        of a Dask scheduler, whose workers are used.
    bar : callable, optional
        bar(done, total) is called after each job.
    here : bool
        Whether to run the jobs in this process regardless of n_jobs.

    Yields
    ------
    tuple
        (position, function(*arguments[position])).

    Raises
    ------
    ValueError
        At once, for an n_jobs that is neither.
    WorkersError
        If a worker was killed (Dask first lets others try), or none is available. A job's own error is raised as it is.

    Examples
    --------
    >>> list(run_unordered(divmod, [(7, 2), (9, 4)], n_jobs=1))
    [(0, (3, 1)), (1, (2, 1))]
    """
    on_cluster = isinstance(n_jobs, str)
    if on_cluster:
        check_scheduler("n_jobs", n_jobs)
    elif n_jobs is not None:
        check_count("n_jobs", n_jobs, ", or None for one per processor")
    if here or not arguments or (len(arguments) == 1 and not on_cluster):
        n_jobs = 1
    n_jobs = n_jobs or processors()
    if n_jobs == 1:
        return _run_here(function, arguments, bar)
    results = _run_on_cluster if isinstance(n_jobs, str) else _run_in_processes
    return _count(results(function, arguments, n_jobs), len(arguments), bar)


def run_in_order(
    function: Callable,
    arguments: list[tuple],
    n_jobs: int | str | None = None,
    bar: Callable[[int, int], None] | None = None,
    here: bool = False,
) -> list:
    """Do as `run_unordered`, and return the results in the order of the arguments once all are there.

    Examples
    --------
    >>> run_in_order(divmod, [(7, 2), (9, 4)], n_jobs=1)
    [(3, 1), (2, 1)]
    """
    results = dict(run_unordered(function, arguments, n_jobs, bar, here))
    return [results[position] for position in range(len(arguments))]


@contextlib.contextmanager
def _said_if_stopped() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped("Stopped. What had finished is stored: run this again to go on from here.") from None


def _run_here(function: Callable, arguments: list[tuple], bar: Callable | None) -> Iterator:
    """Run the jobs in this process. It calls the function itself, so that a traceback is short."""
    with _said_if_stopped():
        for position, job in enumerate(arguments):
            with _threads().limit(limits=1):  # the same sums for any number of workers
                result = function(*job)
            yield position, result
            if bar is not None:
                bar(position + 1, len(arguments))


def _count(results: Iterator, total: int, bar: Callable | None) -> Iterator:
    with _said_if_stopped():
        for done, result in enumerate(results, start=1):
            yield result
            if bar is not None:
                bar(done, total)


def _run_job(function: Callable, position: int, arguments: tuple) -> tuple:
    """Run one job in a worker."""
    with _threads().limit(limits=1):
        return position, function(*arguments)


# --- workers of this machine --------------------------------------------------------------------------


def processors() -> int:
    """Return how many processors this process may use: fewer than there are under `taskset` or in a container."""
    import joblib  # slow, so not before it is needed

    return joblib.cpu_count()


def _run_in_processes(function: Callable, arguments: list[tuple], n_jobs: int) -> Iterator:
    import joblib  # slow, so not before it is needed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    start = {"initializer": _begin_worker, "initargs": (os.getpid(),)}
    n_jobs = min(n_jobs, len(arguments))
    workers = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, **start)
    try:
        yield from workers(joblib.delayed(_run_job)(function, *job) for job in enumerate(arguments))
    except BrokenProcessPool:
        lost = "a worker process was killed: was there memory enough? Run again; what had finished is stored."
        raise WorkersError(lost) from None


def _begin_worker(parent: int) -> None:
    """Prepare a worker: it ends when its parent ends it or is gone, and leaves interrupts to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)


# --- workers of a Dask scheduler -----------------------------------------------------------------------
# joblib has a Dask backend, too. With it a job that kills every worker it is given to is never reported: the iterator
# waits for ever (joblib 1.6).


def _run_on_cluster(function: Callable, arguments: list[tuple], address: str) -> Iterator:
    if _connect(address).status != "running":  # it was cut off
        _connect.cache_clear()
    client = _connect(address)
    from distributed import KilledWorker, as_completed

    RESULTS_FOLDER.mkdir(parents=True, exist_ok=True)
    job = functools.partial(_run_remote_job, worker_identity(), RESULTS_FOLDER, function)
    futures = client.map(job, range(len(arguments)), arguments, pure=False)
    try:
        for future in as_completed(futures, loop=client.loop):
            yield future.result()
            future.release()
    except KilledWorker as error:
        raise WorkersError(f"workers of {address} were killed, one after another, by the same job: {error}") from None
    finally:
        client.cancel(futures)


@functools.cache
def _connect(address: str):
    """Return a client of the scheduler. It is kept, because connecting takes longer than a small job."""
    try:
        from distributed import Client

        client = Client(address, timeout=10, set_as_default=False)
    except ImportError:
        raise WorkersError("a scheduler needs Dask: pip install 'pfpne[dask]'") from None
    except (OSError, ValueError) as error:
        raise WorkersError(f"no Dask scheduler answers at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=60)
    except TimeoutError:
        raise WorkersError(f"the Dask scheduler at {address} has no workers: start some first.") from None
    return client


def _run_remote_job(wanted: dict, shared: Path, function: Callable, position: int, arguments: tuple) -> tuple:
    """Run one job; WorkersError if this worker has other versions, or another store, than the calling process."""
    differ = ", ".join(name for name, value in worker_identity().items() if wanted[name] != value)
    if differ:
        raise WorkersError(f"a worker on {platform.node()} has another version of {differ}.")
    if not shared.is_dir():
        raise WorkersError(f"a worker on {platform.node()} does not see {shared}, where results are kept for all.")
    return _run_job(function, position, arguments)


@functools.cache
def _threads() -> ThreadpoolController:
    """Sets the number of threads of every library that uses threads. Kept, because finding them takes long."""
    import scipy.linalg  # noqa: F401  so that its own is loaded when they are looked for

    return ThreadpoolController()


def end_with_parent(parent: int) -> None:
    """Let this process end at once when `parent`, which started it, is gone, however it was killed."""
    if sys.platform == "linux":  # by the kernel, for compiled code may hold the interpreter
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
