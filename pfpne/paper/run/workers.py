"""Many jobs on worker processes: the same results for any workers, in whatever order they finish.

Workers are processes of this machine (joblib), or those of a Dask scheduler, on as many machines as it has.
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

from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.versions import identity
from pfpne.validation import check, check_count


class WorkersError(RuntimeError):
    """Workers could not be had, or one was killed. The message says what to do."""


class Stopped(KeyboardInterrupt):
    """Somebody interrupted the jobs. The message says how to go on."""

    def _render_traceback_(self):  # IPython shows this instead of a traceback
        return [f"{self}"]


def check_scheduler(name: str, x) -> None:
    """The address of a Dask scheduler."""
    holds = isinstance(x, str) and len(x) < 1000 and re.fullmatch(r"[\w.:/\[\]-]+", x, re.ASCII)
    try:
        parts = urlsplit(x if holds else "")
        holds = parts.scheme in ("tcp", "tls", "ucx", "ws", "wss") and parts.hostname and parts.port
    except ValueError:  # no port can be so
        holds = False
    check(holds, name, "the address of a Dask scheduler, such as tcp://127.0.0.1:8786", x)


def unordered(
    function: Callable, arguments: list[tuple], n_jobs: int | str | None = None, bar=None, here=False
) -> Iterator:
    """(position, function(*arguments[position])) of every job, as each finishes; they begin in their order.

    n_jobs: a number of processes, 1 for this one, None for as many as this process may use processors; or the address
    of a Dask scheduler, whose workers it is then: ValueError, at once, for anything else. bar(done, total) is called
    after each. here: in this process all the same. What a job raises is raised here; WorkersError if a worker was
    killed (Dask first lets others try).
    """
    if isinstance(n_jobs, str):
        check_scheduler("n_jobs", n_jobs)
    elif n_jobs is not None:
        check_count("n_jobs", n_jobs, ", or None for one per processor")
    return _finished(function, arguments, 1 if here or not arguments else n_jobs, bar)


def _finished(function: Callable, arguments: list[tuple], n_jobs: int | str | None, bar: Callable | None) -> Iterator:
    backend = _of_dask if isinstance(n_jobs, str) else _of_joblib
    try:
        for done, result in enumerate(backend(function, arguments, n_jobs), start=1):
            yield result
            if bar is not None:
                bar(done, len(arguments))
    except KeyboardInterrupt:
        raise Stopped("Stopped. What had finished is stored: run this again to go on from here.") from None


def processors() -> int:
    """How many processors this process may use: fewer than there are under `taskset` or in a container."""
    import joblib  # slow, so not before it is needed

    return joblib.cpu_count()


def _of_joblib(function: Callable, arguments: list[tuple], n_jobs: int | None) -> Iterator:
    n_jobs = min(n_jobs or processors(), len(arguments)) if len(arguments) > 1 else 1
    if n_jobs == 1:
        yield from (_job(function, *job) for job in enumerate(arguments))
        return
    import joblib  # slow, so not before it is needed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    start = {"initializer": _begin_worker, "initargs": (os.getpid(),)}
    workers = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, **start)
    try:
        yield from workers(joblib.delayed(_job)(function, *job) for job in enumerate(arguments))
    except BrokenProcessPool:
        lost = "a worker process was killed: was there memory enough? Run again; what had finished is stored."
        raise WorkersError(lost) from None


def _begin_worker(parent: int) -> None:
    """A worker ends when its parent ends it, or has gone: an interrupt, which all processes get, is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def _of_dask(function: Callable, arguments: list[tuple], address: str) -> Iterator:
    if _client(address).status != "running":  # it was cut off
        _client.cache_clear()
    client = _client(address)
    from distributed import KilledWorker, as_completed

    RESULTS.mkdir(parents=True, exist_ok=True)
    job = functools.partial(_remote_job, identity(), RESULTS, function)
    jobs = client.map(job, range(len(arguments)), arguments, pure=False)
    try:
        for job in as_completed(jobs, loop=client.loop):
            yield job.result()
            job.release()
    except KilledWorker as error:
        raise WorkersError(f"workers of {address} were killed, one after another, by the same job: {error}") from None
    finally:
        client.cancel(jobs)


@functools.cache
def _client(address: str):
    """Kept: to connect takes longer than a small job."""
    try:
        from distributed import Client
    except ImportError:
        raise WorkersError("a scheduler needs Dask: pip install 'pfpne[dask]'") from None
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise WorkersError(f"no Dask scheduler answers at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=60)
    except TimeoutError:
        raise WorkersError(f"the Dask scheduler at {address} has no workers: start some first.") from None
    return client


def _remote_job(wanted: dict, shared: Path, function: Callable, position: int, arguments: tuple) -> tuple:
    mine = identity()
    differ = ", ".join(name for name in wanted if wanted[name] != mine[name])
    if differ:
        raise WorkersError(f"a worker on {platform.node()} has another version of {differ}.")
    if not shared.is_dir():
        raise WorkersError(f"a worker on {platform.node()} does not see {shared}, where results are kept for all.")
    return _job(function, position, arguments)


def _job(function: Callable, position: int, arguments: tuple) -> tuple:
    with _threads().limit(limits=1):  # the same sums for any number of workers
        return position, function(*arguments)


@functools.cache
def _threads() -> ThreadpoolController:
    """Sets the threads of every library that uses some; to look for them takes long beside a short job."""
    import scipy.linalg  # noqa: F401  so that its own is loaded when they are looked for

    return ThreadpoolController()


def end_with(parent: int) -> None:
    """Let this process end at once when `parent`, which started it, is gone, however it was killed."""
    if sys.platform == "linux":  # by the kernel, for compiled code may hold the interpreter
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
