"""Many jobs on worker processes: the same results for any number of workers, in whatever order they finish."""

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator

from threadpoolctl import ThreadpoolController

from pfpne.checks import check_count


def unordered(function: Callable, arguments: list[tuple], n_jobs: int | None = None, bar=None, here=False) -> Iterator:
    """(position, function(*arguments[position])) of every job, as each finishes; they begin in their order.

    n_jobs: workers, an integer >= 1 (else ValueError, at once); None for one a core; one is this process.
    bar(done, total) is called after each. here: in this process all the same. What a job raises is raised here.
    """
    if n_jobs is not None:
        check_count("n_jobs", n_jobs, ", or None for one a core")
    return _finished(function, arguments, 1 if here else min(n_jobs or os.cpu_count(), len(arguments)), bar)


def _finished(function: Callable, arguments: list[tuple], n_jobs: int, bar: Callable | None) -> Iterator:
    results = (_job(function, *job) for job in enumerate(arguments))
    if n_jobs > 1:
        import joblib  # slow, so not before it is needed

        start = {"initializer": _end_with, "initargs": (os.getpid(),)}
        workers = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, **start)
        results = workers(joblib.delayed(_job)(function, *job) for job in enumerate(arguments))
    for done, result in enumerate(results, start=1):
        yield result
        if bar is not None:
            bar(done, len(arguments))


def _job(function: Callable, position: int, arguments: tuple) -> tuple:
    with _threads().limit(limits=1):  # the same sums for any number of workers
        return position, function(*arguments)


@functools.cache
def _threads() -> ThreadpoolController:
    """Sets the threads of every library that uses some; to look for them takes long beside a short job."""
    import scipy.linalg  # noqa: F401  so that its own is loaded when they are looked for

    return ThreadpoolController()


def _end_with(parent: int) -> None:
    """Let this worker end when the process that started it was killed, instead of waiting for more work for ever."""

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
