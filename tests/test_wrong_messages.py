"""Wrong and late messages to every algorithm: the wrong are refused, the late are ignored, and nothing changes."""

import json
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfpne.algorithms import ALGORITHMS, UNLIMITED_ALGORITHMS, make_federation
from pfpne.algorithms.pf_pne import KeptIndex
from pfpne.algorithms.pf_pne_plus import DepthStatistics
from pfpne.federation import Task
from pfpne.messages import Awaited, Message, number_array
from pfpne.partition import Partition

M = 3
KINDS = {kind for row in ALGORITHMS.values() for kind in row.up_kinds + row.down_kinds}
KINDS = sorted(KINDS, key=lambda kind: kind.__name__)
FEDERATED = [*(name for name in UNLIMITED_ALGORITHMS if ALGORITHMS[name].up_kinds), "gp-shared"]
# Evaluations in which much is exchanged; 60 where none is said.
HORIZON = {"fed1-ucb": 3_000, "fn-ucb": 5, "centralized": 3, "gp-shared": 16}
HEADERS = (-1, 10**30, 1.5, True, "1", None, np.nan, [0])


def make(name: str):
    return make_federation(name, Task(Partition([[0.0, 1.0]]), M, HORIZON.get(name, 60), noise="bernoulli"))


def with_array(message: Message, name: str, values) -> Message:
    """The message with another array, as it came, of whatever type and size."""
    other = type(message)(message.header, *message.values)
    object.__setattr__(other, name, np.asarray(values))
    return other


def wrong_messages(message: Message, many: bool):
    """(what is wrong, the message) for all that can be wrong about an awaited one. many: try 10^8 numbers, too."""
    for header in (*HEADERS, message.header + 1, message.header + 7):
        yield f"header {header}", type(message)(header, *message.values)
    for kind in KINDS:
        if kind is not type(message) and kind.payload():  # one without, a request, is at most repeated
            yield kind.__name__, kind(message.header, *(np.ones(1, dtype=int) for _ in kind.payload()))
    for other in (None, "message", 3, message.to_json()):
        yield repr(other)[:20], other
    for name in message.payload():
        x, declared = getattr(message, name), type(message).__dataclass_fields__[name].metadata
        arrays = {
            "twice": np.concatenate([x, x]),
            "none": x[:0],
            "another dimension": x[None],
            "no dimension": x.ravel()[0],
            "strings": np.full(x.shape, "0.5"),
            "objects": np.full(x.shape, None),
            "truth values": np.ones(x.shape, dtype=bool),
            "complex": x + 1j,
            "too small": np.full(x.shape, declared["low"] * 10 - 1),
            "too large": np.full(x.shape, declared["high"] * 2),
        }
        if many:
            arrays["many"] = np.broadcast_to(x.ravel()[0], 10**8)
        if declared["kinds"] == "i":
            arrays |= {"fractions": x + 0.5, "unknown": np.append(x[:-1], x[-1] + 10**6)}
            if len(x) > 1:
                arrays |= {"twice the same": np.append(x[:-1], x[-2]), "another order": x[::-1]}
        else:
            arrays |= {"one more": np.concatenate([x, x[-1:]]), "one fewer": x[:-1]}
            arrays |= {str(bad): np.append(x.ravel()[:-1], bad).reshape(x.shape) for bad in (np.nan, np.inf, -np.inf)}
        if name == "point":
            arrays["outside"] = x + 100.0
        for what, values in arrays.items():
            yield f"{name}: {what}", with_array(message, name, values)


def assert_refused(receiver, take, message, what):
    before = pickle.dumps(receiver)
    with pytest.raises(ValueError):
        take(message)
        pytest.fail(f"{what} was taken")
    assert pickle.dumps(receiver) == before, what


def assert_ignored(receiver, take, message, nothing, caplog):
    before, said = pickle.dumps(receiver), len(caplog.records)
    assert take(message) == nothing and pickle.dumps(receiver) == before
    assert "late or repeated" in caplog.records[said].message


class Post:
    """Carries the messages of a federation, and tries wrong ones on who awaits one; all that passed is kept."""

    def __init__(self, run, caplog, tries: int):
        self.run, self.caplog, self.tries, self.past = run, caplog, tries, []

    def deliver(self, down: dict) -> dict:
        """Hand the server's messages over; what the clients answer."""
        answers = {}
        for m, message in down.items():
            client = self.run.clients[m]
            if self.tries > 0:
                for what, wrong in wrong_messages(message, many=self.tries == 3):
                    assert_refused(client, client.receive, wrong, what)
            for late in [late for to, late, sent in self.past if sent is None and to == m][-1:]:
                assert_ignored(client, client.receive, late, None, self.caplog)
            assert len(message.to_json("a" * 100)) <= client.awaits().max_characters()
            answer = client.receive(message)
            self.past.append((m, message, None))
            for to, late, sent in self.past[-4:]:
                if sent is None and to == m:
                    assert_ignored(client, client.receive, late, None, self.caplog)
            if answer is not None:
                answers[m] = answer
        return answers

    def exchange(self, up: dict) -> dict:
        server = self.run.server
        if self.tries > 0:
            for sender in (-1, M, "0", None, 0.5):
                assert_refused(server, server.exchange, {**up, sender: next(iter(up.values()))}, f"sender {sender}")
            m = max(up)
            for what, wrong in wrong_messages(up[m], many=self.tries == 3):
                assert_refused(server, server.exchange, {**up, m: wrong}, what)
        for m, message in up.items():
            assert len(message.to_json("a" * 100)) <= server.awaits(m).max_characters()
        down = server.exchange(up)
        for late in (up, {next(iter(up)): next(iter(up.values()))}):
            assert_ignored(server, server.exchange, late, {}, self.caplog)
        return down


@pytest.mark.parametrize("name", FEDERATED)
def test_wrong_messages_are_refused_and_late_ones_ignored_and_nothing_changes(name, caplog):
    run = make(name)
    post = Post(run, caplog, tries=3)
    waiting = post.deliver(run.server.first_messages())
    exchanges = 0
    while run.running:
        for m, client in enumerate(run.clients):
            batch = client.ask()
            if batch.size:
                message = client.tell(np.linspace(0, 1, batch.size) * (m + 1) / M)
                if message is not None:
                    waiting[m] = message
        while waiting:
            waiting = post.deliver(post.exchange(waiting))
            post.tries, exchanges = post.tries - 1, exchanges + 1
    assert exchanges >= 2
    for m, message, _ in post.past:  # at the end nothing is awaited any more
        assert_ignored(run.clients[m], run.clients[m].receive, message, None, caplog)
        later = type(message)(message.header + 10**6, *message.values)
        assert_refused(run.clients[m], run.clients[m].receive, later, "after the end")


@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
def test_what_nobody_waits_for_is_refused_before_anything_began(name):
    run = make(name)
    for kind in KINDS:
        for dtype in (int, float):
            message = kind(2, *(np.full(4, 7, dtype=dtype) for _ in kind.payload()))
            for client in run.clients:
                assert_refused(client, client.receive, message, kind.__name__)
            assert_refused(run.server, run.server.exchange, {0: message}, kind.__name__)


def test_an_empty_array_is_refused_by_its_shape():
    for kind in (kind for kind in KINDS if kind.payload()):
        empty = [
            np.empty((0,) * len(kind.__dataclass_fields__[name].metadata["shape"]), int) for name in kind.payload()
        ]
        with pytest.raises(ValueError, match=r"must be of shape .* got \(0,"):
            kind(0, *empty).check()


@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
def test_what_is_no_mail_is_refused(name):
    run = make(name)
    for mail in (None, [3], {0: 3}, {"0": None}, {-1: None}, {True: None}):
        assert_refused(run.server, run.server.exchange, mail, f"{mail}")
    for m in ([], None, "0", 99, 0.0):
        with pytest.raises(ValueError, match="client"):
            run.tell(m, [0.0])


@pytest.mark.parametrize("name", [name for name in FEDERATED if name not in ("fn-ucb", "centralized")])
def test_an_exchange_waits_for_all_clients(name):
    run = make(name)
    up = {m: client.tell(np.zeros(client.ask().size)) for m, client in enumerate(run.clients)}
    assert_refused(run.server, run.server.exchange, dict(list(up.items())[:-1]), "one client is missing")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ARRAY = JSON | st.lists(st.floats() | st.integers(-3, 40), max_size=4) | st.lists(st.integers(0, 4), max_size=3)
ALMOST = st.sampled_from(KINDS).flatmap(
    lambda kind: st.fixed_dictionaries(
        {"kind": st.just(kind.__name__), "header": JSON | st.integers(-1, 3)} | {name: ARRAY for name in kind.payload()}
    )
)


@settings(max_examples=60)
@given(st.one_of(JSON, ALMOST, ALMOST.map(lambda content: content | {"more": 1})))
def test_any_json_is_a_message_or_a_value_error(content):
    text = json.dumps(content)
    try:
        message = Message.from_json(text)
    except ValueError:
        return
    message.check()
    assert set(content) == {"kind", "header", *message.payload()}
    assert Message.from_json(message.to_json()).to_json() == message.to_json()
    assert all(np.isfinite(values).all() for values in message.values)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        '{"kind": "KeptIndex", "header": 0, "index": ' + "[" * 10**5 + "]" * 10**5 + "}",
        lambda: '{"kind": "KeptIndex", "header": 0, "index": [' + "1," * 10**8 + "1]}",  # 200 MB: made by its test only
        '{"kind": "KeptIndex", "header": -1, "index": [1]}',
        '{"kind": "NodeMeans", "header": 0, "means": [1e400]}',
        '{"kind": "NodeMeans", "header": 0, "means": [true, 0.5]}',
        '{"kind": "KeptIndex", "header": 0, "index": [1, false]}',
        '{"kind": "KeptIndex", "header": true, "index": [1]}',
        '{"kind": "NodeMeans", "header": 0, "means": [' + "9" * 400 + ", 0.5]}",
        '{"kind": "NodeMeans", "header": 0, "means": [' + "9" * 5000 + "]}",
        '{"kind": "NodeMeans", "header": 0, "means": [[1], 2]}',
        '{"kind": "NodeMeans", "header": 0, "means": {"0": 1}}',
        '{"kind": "NodeMeans", "header": 0, "means": [1], "means": [2]}',
        '{"kind": "NodeMeans", "header": 0, "means": [null]}',
        '{"kind": "' + "N" * 10**6 + '", "header": 0}',
        '{"kind": "NodeMeans", "header": 0, "means": ["' + "a" * 10**6 + '"]}',
        '{"kind": ["NodeMeans"], "header": 0, "means": [1]}',
        '{"kind": "Message", "header": 0}',
        '{"header": 0}',
        "",
        b"{}",
        None,
    ],
    ids=range(22),
)
def test_a_text_that_is_no_message_is_refused(text):
    text = text() if callable(text) else text
    with pytest.raises(ValueError, match="not a message") as refused:
        Message.from_json(text)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "array",
    ['"' + "a" * 5_000 + '"' + ',""' * 3_000, "[]," * 5_000 + "[]", "{}," * 5_000 + "{}", "null," * 5_000 + "null"],
    ids=["one long text among many", "lists", "dicts", "nulls"],
)
def test_a_text_costs_no_more_than_a_message_of_its_length_may_hold(array):
    """NumPy would make 60 MB of the 14 kB of the first."""
    text = f'{{"kind": "NodeMeans", "header": 0, "means": [{array}]}}'
    tracemalloc.start()
    with pytest.raises(ValueError, match="not a message"):
        Message.from_json(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(text)


def test_memory_that_gives_out_is_a_refused_message(monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr(json, "loads", no_memory)
    with pytest.raises(ValueError, match="not a message"):
        Message.from_json('{"kind": "NodeMeans", "header": 0, "means": [1]}')


def test_a_text_longer_than_what_is_awaited_is_refused_unread(monkeypatch):
    server = make("pf-pne").server
    longest = server.awaits(0).max_characters()
    assert longest < 500  # one mean
    with pytest.raises(ValueError, match=f"at most {longest} characters is wanted; got one of 601"):
        Message.from_json('{"kind": "NodeMeans", "header": 0, "means": [1]}'.ljust(601), limit=longest)


def test_a_text_whose_receiver_says_no_limit_is_bounded_all_the_same(monkeypatch):
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="a text of at most 4194304 characters is wanted; got one of 4194305"):
        Message.from_json('{"kind": "NodeMeans", "header": 0, "means": [1]}'.ljust(2**22 + 1))


def test_a_text_is_bounded_whatever_its_receiver_allows():
    with pytest.raises(ValueError, match="a text of at most 67108864 characters is wanted; got one of 67108865"):
        Message.from_json(" " * (2**26 + 1), limit=2**40)


def test_a_text_of_another_plan_is_refused():
    message = make("pf-pne").clients[0].tell([1.0])
    text = message.to_json("0123abcd")
    assert Message.from_json(text, "0123abcd").to_json() == message.to_json() == Message.from_json(text).to_json()
    for other in (message.to_json("0123abce"), message.to_json()):
        with pytest.raises(ValueError, match="the plan of a message must be '0123abcd'"):
            Message.from_json(other, "0123abcd")


def test_a_mean_lies_in_the_range_of_the_rewards():
    """Which a task names, or its noise: else one client that lies moves all the others."""
    for noise, reward_range, low, high in (
        ("bernoulli", None, 0, 1),
        (0.1, (-0.1, 1.1), -0.1, 1.1),
        (0, None, -1e9, 1e9),
    ):
        task = Task(Partition([[0.0, 1.0]]), 2, 60, noise=noise, reward_range=reward_range)
        run = make_federation("pf-pne", task)
        message = run.clients[0].tell([high])
        beyond = [type(message)(0, [x]) for x in (low - 0.01 * (high - low), high + 0.01 * (high - low), 1e99)]
        for wrong in beyond:
            assert_refused(run.server, run.server.exchange, {0: wrong, 1: message}, f"{wrong.means}")
        answer = run.server.exchange({0: message, 1: type(message)(0, [low])})[0]
        for mean in (low - 1.0, high + 1.0, 1e99):
            if abs(mean) > 2e9 or noise != 0:
                wrong = type(answer)(0, answer.index, [mean], answer.half_widths)
                assert_refused(run.clients[0], run.clients[0].receive, wrong, f"{mean}")
        run.clients[0].receive(answer)


def test_a_reward_lies_in_the_range_of_the_task():
    client = make("pf-pne").clients[0]
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="a reward of the task lies in .0, 1."):
            client.tell([wrong])
    assert client.t == 0
    for wrong in ((1, 0), (0, np.nan), (0, 1, 2), 3, "01", (0, 1e10)):
        with pytest.raises(ValueError, match="reward_range must be"):
            Task(Partition([[0.0, 1.0]]), 2, 60, reward_range=wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_every_array_of_a_message_is_declared(kind):
    assert all(set(kind.__dataclass_fields__[name].metadata) == set(number_array().metadata) for name in kind.payload())


def test_a_mean_is_in_the_range_of_rewards_and_a_variance_in_the_square_of_its_width():
    task = Task(Partition([[0.0, 1.0]]), 3, 60, reward_range=(-1, 4))
    assert {name: pytest.approx(bounds) for name, bounds in task.statistic_ranges(DepthStatistics).items()} == {
        "means": (-1.0, 4.0),
        "variances": (0.0, 25.0),
    }
    server = make_federation("pf-pne+", task).server
    for variance, taken in ((24.9, True), (25.1, False)):
        message = DepthStatistics(0, [1.5], [variance], [0])
        if taken:
            assert server.awaits(0).accepts(message, server.receives)
            continue
        with pytest.raises(ValueError, match="DepthStatistics's variances must be in 0.0..25.0"):
            server.awaits(0).accepts(message, server.receives)


def test_a_text_may_be_as_long_as_the_longest_list_that_it_may_hold():
    awaited = Awaited(0, KeptIndex, range(1, 2), {"other": 3}, {"index": 10**17 + np.arange(400)})
    message = KeptIndex(1, awaited.subset_of["index"])
    assert awaited.accepts(message, (KeptIndex,)) and len(message.to_json("a" * 100)) <= awaited.max_characters()


def test_a_message_is_early_if_it_is_later_than_all_that_are_awaited():
    awaited, nothing = Awaited(3, KeptIndex, range(4, 9)), Awaited(3)
    assert [awaited.is_early(header) for header in (3, 4, 8, 9)] == [False, False, False, True]
    assert [nothing.is_early(header) for header in (3, 4)] == [False, True]
