"""Save and restore a client, a server or a whole federation, as bytes or as a file, to continue exactly from there.

    pfpne.save("client.pfpne", client)
    client = pfpne.load("client.pfpne")

The bytes are a line (a name, the format, the version of the package, SHA-256 of the rest) and JSON: plain values,
arrays as their bytes, and objects as the name of a listed class and their attributes. The loader makes nothing else.
Settings, tasks and messages are made by their own constructors, which check them; clients and servers by their class's
__setstate__, if it has one. So a stranger's file can be nonsense, but cannot run anything. A state can be read only by
the version of the package that wrote it.
"""

import base64
import copy
import dataclasses
import functools
import hashlib
import json
import math
import pkgutil
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from pfpne import __version__
from pfpne.federation import Client, Federation, Server, Task
from pfpne.journal import check_plain
from pfpne.messages import Message
from pfpne.paths import write_atomically
from pfpne.validation import brief, check

FORMAT = 13  # the names of classes are part of it
SAVED_CLASSES = (Client, Server, Federation, dict)
ARRAY_KINDS = "biuf"  # the kinds of numpy arrays allowed, besides the records of a tree
PLAIN_CLASSES = (type(None), bool, int, float, str)
FREE_NUMBERS = 10**7  # restoring may make so many numbers that are not in the file: 80 MB
FREE_NUMBERS_PER_CHARACTER = 64  # and so many more for each character of the file
LARGEST_KEY = 2**60  # of a dict: larger integers can be chosen such that all have one hash


def _name(kind: type) -> str:
    """Return the full name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


@functools.cache
def classes() -> dict[str, type]:
    """Return the classes that a state may be made of, by their names; none of them opens a file.

    They are those of the modules listed here, and the messages of live use, GoOn and Done.
    """
    names = [module.name for module in pkgutil.iter_modules(import_module("pfpne.algorithms").__path__)]
    modules = ["messages", "federation", "partition", "gaussian", *(f"algorithms.{name}" for name in names)]
    listed = [kind for module in modules for kind in _defined(module)]
    listed += _defined("live.plan")
    return {_name(kind): kind for kind in listed}


def _defined(module: str) -> list[type]:
    """Return the classes that a module of the package defines."""
    content = vars(import_module(f"pfpne.{module}")).values()
    return [x for x in content if isinstance(x, type) and x.__module__ == f"pfpne.{module}"]


@functools.cache
def records() -> dict[str, np.dtype]:
    """Return the kinds of arrays that hold records, not numbers: a tree's nodes and its state."""
    hct = import_module("pfpne.algorithms.hct")
    return {"nodes": hct.NODE, "state": hct.STATE}


def _check_tree(tree: Any) -> None:
    """Raise a ValueError unless a tree's rows refer only to its own rows and tables: compiled code does not check.

    A parent comes before its children, so that every path up or down ends.
    """
    kinds, k = records(), tree.task.partition.k
    node, state, (threshold, squared_half_width, diameter, k_of_tables, *_) = tree.node, tree.state, tree.constants
    kind_is_right = (node.dtype, node.ndim, state.dtype, state.shape) == (kinds["nodes"], 1, kinds["state"], (1,))
    check(kind_is_right, "a tree in a state", "of nodes and one state", (node.dtype, state.dtype))
    next_step, epoch, size, best, just_split, top = state[0].item()
    epochs, depths, horizon = len(squared_half_width), tree.task.partition.max_depth + 1, tree.task.horizon
    shapes = threshold.shape, squared_half_width.shape, diameter.shape, k_of_tables
    shapes_are_right = shapes == ((epochs, depths), (epochs,), (depths,), k) and 2 ** (epochs - 1) >= horizon
    check(shapes_are_right and np.all(threshold[:, -1] == np.inf), "the tables of a tree", "as for its task", shapes)
    time_is_right = 1 <= next_step <= horizon + 1 and epoch == (next_step - 1).bit_length()
    rows_are_right = 0 < size <= len(node) and 0 <= best < size and -1 <= just_split < size and 0 <= top < size
    check(time_is_right and rows_are_right, "the state of a tree", "within its nodes and tables", state[0].item())
    rows, node = np.arange(size), node[:size]
    inner = node["first_child"] != -1
    first_child, largest = node["first_child"][inner], node["largest"][inner]
    right = (-1 <= node["parent"]) & (node["parent"] < rows)
    right &= (0 <= node["depth"]) & (node["depth"] < depths) & np.isfinite(node["count"])
    right[inner] &= (rows[inner] < first_child) & (first_child <= size - k)
    right[inner] &= (first_child <= largest) & (largest - first_child < k)
    check(right.all(), "the nodes of a tree", "within its nodes and tables", np.flatnonzero(~right)[:9].tolist())


def _check_search(search: Any) -> None:
    """Raise a ValueError unless the arrays of a search by a Gaussian process are such as it makes them."""
    gp_tree = import_module("pfpne.algorithms.gp_tree")
    n, values, task = np.size(search.depth), np.size(search.observed), search.task
    d, k = task.partition.d, task.partition.k
    shapes = {name: (n,) for name in search.ROWS} | {"observed": (values,), "center": (n, d), "point": (n, d)}
    shapes |= {"A": (values, values), "weights": (n, values), "child_center": (n, k, d)}
    kinds = dict.fromkeys(shapes, "f") | {"depth": "i", "index": "i", "observed": "i", "is_leaf": "b"}
    arrays = {name: getattr(search, name) for name in shapes}
    wrong = [
        name
        for name, x in arrays.items()
        if not (isinstance(x, np.ndarray) and x.shape == shapes[name] and x.dtype.kind == kinds[name])
    ]
    check(n > 0 and not wrong, "the arrays of a search", "with a row for each of its nodes", wrong)
    check(0 < values <= gp_tree.MAX_VALUES, "the values of a search", f"at most {gp_tree.MAX_VALUES}", values)
    inside = (0 <= search.observed) & (search.observed < n)
    check(inside.all(), "the observed nodes of a search", f"in 0..{n - 1}", search.observed[~inside])
    check(len(np.unique(search.observed)) == values, "the observed nodes of a search", "different", search.observed)
    # The smallest cells have no children: there the centres of the children, and the distance from them, are NaN.
    numbers = [x for name, x in arrays.items() if name not in ("child_center", "reach")]
    finite = all(np.isfinite(x).all() for x in numbers)
    positive = (search.count >= 0).all() and (search.count[search.observed] >= 1).all() and (search.variance > 0).all()
    low, high = search.reward_variance.min(), search.reward_variance.max()
    valid = finite and positive and low > 0 and high < 1e30
    check(valid, "the numbers of a search", "finite, with variances above 0", (low, high))
    limits = len(gp_tree.LENGTHS), len(gp_tree.ORDERS), len(gp_tree.DEVIATIONS)
    positions = search.positions
    on_grid = type(positions) is tuple and len(positions) == 3 and all(type(x) is int for x in positions)
    on_grid = on_grid and all(0 <= x < limit for x, limit in zip(positions, limits, strict=True))
    check(on_grid, "the hyper-parameters of a search", "on their grid", positions)
    is_step = type(search.steps) is int and 0 <= search.steps <= task.horizon
    check(is_step, "the steps of a search", f"in 0..{task.horizon}", search.steps)
    counters = search.n_batches, search.next_fit
    are_right = all(type(x) is int and 0 <= x <= 2 * task.horizon + 4 for x in counters)
    check(are_right and type(search.binary) is bool, "the counters of a search", "integers", counters)
    check(isinstance(search.hyper, gp_tree.Hyper), "the hyper-parameters of a search", "its own", search.hyper)
    numbers = search.constant_mean, search.first_variance, search.nu_1, *search.hyper
    is_right = all(isinstance(x, Real) for x in numbers)
    is_right = is_right and bool(np.all(np.abs(numbers) < 1e30)) and search.hyper.order in gp_tree.ORDERS
    is_right = is_right and min(search.nu_1, search.hyper.length, search.hyper.variance) > 1e-30
    check(is_right and search.first_variance >= 0, "the constants of a search", "finite, and above 0", numbers)


def _check_recommendation(client: Any) -> None:
    """Raise a ValueError unless what the client's earlier search recommends is a point of the domain, or None."""
    hct, best = import_module("pfpne.algorithms.hct"), client.best_of_search
    if best is None:
        return
    domain = client.task.partition.domain
    is_point = isinstance(best, np.ndarray) and best.dtype == float and best.shape == (len(domain),)
    is_inside = is_point and bool(np.all((domain[:, 0] <= best) & (best <= domain[:, 1])))
    check(is_inside and isinstance(client.tree, hct.TreeClient), "what a search recommends", "in the domain", best)


def _numbers_made(state: dict) -> int:
    """Return a bound on the numbers that restoring a PhasedClient makes; ValueError if the state is not one's.

    A restored client goes through its phases again. In most phases it makes the children of the root, or of nodes that
    the state names. So the bound follows from the size of the state. Some algorithms make more because of their
    settings: they store pulls one by one, or pass over depths. This is added to the bound. A test fails for a new
    phased algorithm, until somebody has judged what it makes.
    """
    blin, phases, pf_pne, plus = (
        import_module(f"pfpne.algorithms.{name}") for name in ("blin", "phases", "pf_pne", "pf_pne_plus")
    )
    (kind, settings), task, sent = state["_made_of"], state["task"], state["_sent"]
    is_known = isinstance(kind, type) and issubclass(kind, phases.ClientGroup) and isinstance(task, Task)
    has_settings = dataclasses.is_dataclass(type(settings))
    check(is_known and has_settings, "a client in phases", "of an algorithm in phases", kind)
    check(type(sent) is list, "what a client in phases was sent", "a list", type(sent).__name__)
    total, k, M, T = 1, task.partition.k, task.n_clients, task.horizon
    for value in sent:
        if isinstance(value, Message):
            value.check()
            total += value.n_numbers
        else:
            is_row = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == float
            check(is_row and np.isfinite(value).all(), "what a client in phases was sent", "sums or messages", value)
            total += len(value)
    made = (1 + k) * total
    if issubclass(kind, plus.PFPNEPlus):
        made += min(T + 1, plus.ROOT_PULLS * pf_pne.n_pulls_per_client(0, settings.log_term_for(T, M), settings, M))
    elif issubclass(kind, blin.BLiN):
        first = blin.pulls_of_cube(0, T, settings.c_pulls)
        made += min(T + 1, max(first, 4 * 2**task.partition.d * total if sent else 0))
    elif issubclass(kind, pf_pne.FedPNE):
        kept = [(value.header + 1, k * len(value.index)) for value in sent if isinstance(value, pf_pne.KeptIndex)]
        made += sum(_expanded(task, settings, h, size) for h, size in [(0, 1), *kept])
    return made


def _expanded(task: Task, settings: Any, h: int, size: int) -> int:
    """Return the number of nodes that `pfpne.algorithms.pf_pne.expand` makes from a number of nodes of depth h."""
    compute_tau = import_module("pfpne.algorithms.pf_pne").compute_tau
    constants = settings.log_term_for(task.horizon, task.n_clients), settings.c, settings.nu_1, settings.rho
    while h < task.partition.max_depth and size * compute_tau(h, *constants) <= task.n_clients:
        h, size = h + 1, size * task.partition.k
    return size


# --- to plain values and back --------------------------------------------------------------------------
# A plain value is itself. Everything else is a list: its kind and its content. An object that has been written already
# is ["again", its number], so that restored objects refer to one another as before.


class _Writer:
    def __init__(self):
        self.known, self.positions, self.kept = classes(), {}, []

    def write(self, x):
        if type(x) in PLAIN_CLASSES:
            return x
        if id(x) in self.positions:
            return ["again", self.positions[id(x)]]
        written = self._written(x)
        self.positions[id(x)] = len(self.kept)
        self.kept.append(x)  # so that no other object gets its address
        return written

    def _written(self, x):
        kind = type(x)
        if kind in (list, tuple):
            return [kind.__name__, [self.write(value) for value in x]]
        if kind is dict:
            return ["dict", [[self.write(key), self.write(value)] for key, value in x.items()]]
        if isinstance(x, np.generic) and x.dtype.kind in ARRAY_KINDS:
            return ["number", x.dtype.str, base64.b64encode(x.tobytes()).decode()]
        if isinstance(x, np.ndarray):
            named = [name for name, dtype in records().items() if dtype == x.dtype]
            if named or x.dtype.kind in ARRAY_KINDS:
                content = base64.b64encode(x.tobytes()).decode()
                return ["array", named[0] if named else x.dtype.str, list(x.shape), x.flags.writeable, content]
        name = _name(x if isinstance(x, type) else kind)
        if self.known.get(name) is not (x if isinstance(x, type) else kind):
            raise ValueError(f"a state that holds {name} cannot be saved.")
        if isinstance(x, type):
            return ["class", name]
        if isinstance(x, tuple):  # with names
            return ["object", name, [self.write(value) for value in x]]
        if dataclasses.is_dataclass(x):
            state: Any = {f.name: getattr(x, f.name) for f in dataclasses.fields(x) if f.init}
        else:
            state = x.__getstate__() or {}
        return ["object", name, [[key, self.write(value)] for key, value in state.items()]]


class _Reader:
    """Reads a state from a text with a given number of characters.

    numbers_left: how many numbers may still be made. heaviest: the largest weight that a container may have. weights:
    the weight of each container read, which is the number of its values if each reference to a value counts as one
    more value; else a short text could stand for more than any memory holds. steps: the last step of each tree.
    """

    def __init__(self, characters: int):
        self.known, self.kept, self.steps = classes(), [], {}
        self.heaviest, self.numbers_left = 1000 + 4 * characters, FREE_NUMBERS + FREE_NUMBERS_PER_CHARACTER * characters
        self.weights: dict[int, int] = {}

    def read(self, x):
        if type(x) in PLAIN_CLASSES:
            return x
        tag, *rest = x
        if tag == "again":
            (number,) = rest
            check(type(number) is int and 0 <= number < len(self.kept), "what is there again", "there before", number)
            return self.kept[number]
        readers = {"list": self._list, "tuple": self._tuple, "dict": self._dict, "number": self._number}
        readers |= {"array": self._array, "class": self._class, "object": self._object}
        check(isinstance(tag, str) and tag in readers, "what stands in a state", f"one of {', '.join(readers)}", tag)
        restored = readers[tag](*rest)
        self.kept.append(restored)  # for "again", and so that no other object gets its address
        return restored

    def _weight(self, parts, sizes: bool = False) -> int:
        """Return the weight of what holds these parts, unless it is too much. sizes: whether arrays weigh by theirs."""
        weight = 1 + sum(self.weights.get(id(x), x.size if sizes and isinstance(x, np.ndarray) else 1) for x in parts)
        check(weight <= self.heaviest, "what a state holds", f"at most {self.heaviest} values", weight)
        return weight

    def _weighed(self, restored: Any) -> Any:
        """Return the list or tuple, and record its weight: the size of the array that NumPy could make of it."""
        self.weights[id(restored)] = self._weight(restored, sizes=True)
        return restored

    def _use_numbers(self, numbers: int) -> None:
        self.numbers_left -= numbers
        check(
            self.numbers_left >= 0,
            "what restoring a state makes",
            "little more than what it holds",
            f"{numbers} numbers",
        )

    def _list(self, values: list) -> list:
        return self._weighed([self.read(value) for value in values])

    def _tuple(self, values: list) -> tuple:
        return self._weighed(tuple([self.read(value) for value in values]))

    def _dict(self, pairs: list) -> dict:
        restored = {self._key(key): self.read(value) for key, value in pairs}
        self.weights[id(restored)] = self._weight(restored.values())
        return restored

    def _key(self, x):
        """Read a key: plain, or a tuple of plain values. Hashing nested tuples could take for ever."""
        key = self.read(x)
        for value in key if type(key) is tuple else (key,):
            plain = type(value) in PLAIN_CLASSES and not (type(value) is int and abs(value) > LARGEST_KEY)
            check(plain, "a key in a state", "a plain value, or a tuple of them", type(value).__name__)
        return key

    def _number(self, dtype: str, content: str):
        return self._array(dtype, [], False, content)[()]

    def _array(self, dtype: str, shape: list, writeable: bool, content: str) -> np.ndarray:
        """Read an array of numbers, as many as are in the file."""
        is_name = isinstance(dtype, str) and len(dtype) <= 8 and type(shape) is list and len(shape) <= 4
        check(is_name, "an array in a state", "of numbers, in four dimensions at most", dtype)
        kind, values = records().get(dtype) or np.dtype(dtype), base64.b64decode(content, validate=True)
        is_known = dtype in records() or (kind.kind in ARRAY_KINDS and kind.fields is None and kind.subdtype is None)
        check(is_known, "an array in a state", "of numbers", dtype)
        right_size = all(type(n) is int and n >= 0 for n in shape) and math.prod(shape) * kind.itemsize == len(values)
        check(right_size, "the size of an array", f"that of what is there, {len(values)} bytes", shape)
        restored = np.frombuffer(values, kind).reshape(shape).copy()
        restored.setflags(write=bool(writeable))
        return restored

    def _class(self, name: str) -> type:
        check(isinstance(name, str) and name in self.known, "a class in a state", "one of the package's states", name)
        return self.known[name]

    def _object(self, name: str, content: list):
        kind = self._class(name)
        if issubclass(kind, tuple):
            return self._weighed(kind(*(self.read(value) for value in content)))
        state = {self._field(kind, key): self.read(value) for key, value in content}
        weight = self._weight(state.values())  # before anything is made of it, or shown in an error
        if issubclass(kind, (Client, Server)) and "task" in state:
            check(isinstance(state["task"], Task), "the task of a client or a server", "a Task", type(state["task"]))
        if dataclasses.is_dataclass(kind):  # settings, tasks and messages: made by their constructors, which check them
            arrays = all(isinstance(value, np.ndarray) for name, value in state.items() if name != "header")
            check(not issubclass(kind, Message) or arrays, "what a message in a state holds", "arrays", list(state))
            restored = kind(**state)
            self.weights[id(restored)] = weight
            return restored
        restored: Any = object.__new__(kind)
        self.weights[id(restored)] = weight
        if hasattr(kind, "__setstate__"):
            self._use_numbers(_numbers_made(state))
            restored.__setstate__(state)
        else:
            vars(restored).update(state)
        self._check_trees(restored)
        return restored

    def _check_trees(self, restored) -> None:
        """Check a tree, and record which evaluations its next step has to follow: its own, or its PlusClient's."""
        hct, gp_tree, plus = (import_module(f"pfpne.algorithms.{name}") for name in ("hct", "gp_tree", "pf_pne_plus"))
        if isinstance(restored, gp_tree.GPTreeClient):
            _check_search(restored)
            n, k, d = restored.child_center.shape
            self._use_numbers(n * (len(restored.observed) * d + k * k * d))  # distances, and a split's children
        elif isinstance(restored, hct.TreeClient):
            self._use_numbers(restored.node.size + restored.constants[0].size)
            _check_tree(restored)
            self.steps[id(restored)] = restored, restored.t
        elif isinstance(restored, plus.PlusClient):
            _check_recommendation(restored)
            if restored.tree is None:
                return
            is_tree = isinstance(restored.tree, (hct.TreeClient, gp_tree.GPTreeClient))
            check(is_tree, "the tree of a client", "a tree", type(restored.tree).__name__)
            in_stage_2 = isinstance(restored._request, plus.OwnTrees)
            check(in_stage_2, "a client with a tree", "in stage 2", type(restored._request).__name__)
            if isinstance(restored.tree, hct.TreeClient):
                self.steps[id(restored.tree)] = restored.tree, restored.t
            else:
                check(restored.tree.steps == restored.t, "the step of a search", f"{restored.t}", restored.tree.steps)
                check(not restored.tree.hands_over, "a search", "followed by a tree, once it has ended", restored.t)

    def check_steps(self) -> None:
        """Raise a ValueError if a tree would go on beyond its tables, which are for the steps up to the horizon."""
        for tree, t in self.steps.values():
            next_step = int(tree.state[0]["next_step"])
            check(next_step == t + 1, "the step of a tree", f"{t + 1}", next_step)

    @staticmethod
    def _field(kind: type, name) -> str:
        """Return the name of a value that an object holds; ValueError for what its class defines, such as a method."""
        is_name = isinstance(name, str) and not name.startswith("__") and name != "receives"
        defined = getattr(kind, name, None) if is_name else None
        is_value = is_name and not callable(defined) and not isinstance(defined, property)
        check(is_value, "what an object holds", "a value", name)
        return name


# --- bytes and files -----------------------------------------------------------------------------------


def _header(content: bytes) -> bytes:
    return f"pfpne-state {FORMAT} {__version__} {hashlib.sha256(content).hexdigest()}\n".encode()


def to_bytes(state: Client | Server | Federation | dict) -> bytes:
    """Return the state as bytes, without a federation's on_mail.

    Raises a ValueError for a state that holds something else than this package's own, such as a PyXABPartition.
    """
    if not isinstance(state, SAVED_CLASSES):
        raise ValueError(f"a client, a server or a federation is saved; got {type(state).__name__}.")
    if isinstance(state, Federation):
        state = copy.copy(state)
        state.on_mail = None
    content = json.dumps(_Writer().write(state), separators=(",", ":")).encode()
    return _header(content) + content


def from_bytes(content: bytes) -> Client | Server | Federation | dict:
    """Return the state that `to_bytes` wrote; ValueError if it is damaged, of another version, or none."""
    first, _, rest = content.partition(b"\n")
    expected, header = _header(rest).split(), first.split()
    if len(header) != 4 or header[0] != expected[0]:
        raise ValueError("this is not a saved state.")
    if header[1:3] != expected[1:3]:
        written, here = (b" ".join(line[1:3]).decode(errors="replace")[:80] for line in (header, expected))
        raise ValueError(f"this state has format and version {written}; only those are read here: {here}.")
    if header[3] != expected[3]:
        raise ValueError("this saved state is damaged: its content is not what was written.")
    try:
        reader = _Reader(len(rest))
        state = reader.read(json.loads(rest))
        reader.check_steps()
    except Exception as error:  # whatever a made-up state may raise
        raise ValueError(f"this saved state cannot be read: {str(error)[:300]}") from error
    if not isinstance(state, SAVED_CLASSES):
        raise ValueError(f"this is no saved client, server or federation but {brief(state)}.")
    return state


def save(path: str | Path, state: Client | Server | Federation | dict) -> Path:
    """Save a client, a server or a federation in a file, to continue exactly from there.

    The file is written whole or not at all, and is on disk before this returns.

    Parameters
    ----------
    path
        The path of the file.
    state
        A client, a server, a federation (without its on_mail), or a dict of them.

    Returns
    -------
    pathlib.Path
        The path.

    Raises
    ------
    ValueError
        If the state holds something else than this package's own, such as a `PyXABPartition`.

    Examples
    --------
    >>> import pfpne, tempfile
    >>> task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=2, horizon=100)
    >>> federation = pfpne.make_federation("pf-pne", task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pfpne.save(f"{folder}/federation", federation)
    ...     restored = pfpne.load(path)
    >>> len(restored.clients)
    2
    """
    return write_atomically(Path(path), to_bytes(state), durable=True)


def load(path: str | Path) -> Client | Server | Federation | dict:
    """Restore what `save` has written.

    Parameters
    ----------
    path
        The path of the file.

    Returns
    -------
    Client, Server, Federation or dict
        The state. A stranger's file can be nonsense, but it cannot run anything.

    Raises
    ------
    ValueError
        If the file is damaged, comes from another version of the package, or is no saved state.

    Examples
    --------
    >>> import pfpne, tempfile
    >>> server = pfpne.make_federation("pe", pfpne.Task(pfpne.Partition([[0.0, 1.0]]), 2, 100)).server
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pfpne.load(pfpne.save(f"{folder}/server", server)).task.horizon
    100
    """
    check_plain(Path(path))
    try:
        return from_bytes(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
