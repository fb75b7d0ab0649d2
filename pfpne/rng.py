"""Random streams, each with a key that says what it is for, such as ("garland", run, client, "noise").

A stream depends on its seed and its key alone. Adding an algorithm or a client, or changing their order, leaves every
other stream as it was (common random numbers).
"""

import functools
import hashlib
import operator

import numpy as np


@functools.lru_cache(maxsize=4096)
def _words(part: str | int) -> tuple[int, ...]:
    """Return the 32-bit words that encode one part of a key; a name and an integer never have the same words."""
    if isinstance(part, str):
        digest = hashlib.blake2b(part.encode(), digest_size=8).digest()
        return (1, int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little"))
    if part < 0:
        raise ValueError(f"a part of a stream's key is a name or an integer >= 0; got {part}.")
    return (0, part % 2**32, part // 2**32)


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """Return the generator of one stream.

    Parameters
    ----------
    seed
        The root seed, an integer >= 0.
    *key
        Names and integers >= 0 that together say what the stream is for.

    Returns
    -------
    numpy.random.Generator
        The same for equal arguments, in every process.
    """
    # index() refuses a float, which the cache would take for the integer that it equals
    parts = (part if isinstance(part, str) else operator.index(part) for part in key)
    words = tuple(word for part in parts for word in _words(part))
    return np.random.default_rng(np.random.SeedSequence(entropy=int(seed), spawn_key=words))
