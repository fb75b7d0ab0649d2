"""Live use, done to real processes: clients that are killed, gone, back, slow, that repeat themselves and fail."""

import ast
import contextlib
import errno
import importlib
import json
import logging
import math
import multiprocessing
import os
import queue
import re
import runpy
import signal
import sys
import threading
import time
import tomllib
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from filelock import FileLock, Timeout
from live_client import main, objective, task

import pfpne
from pfpne.algorithms import ALGORITHMS, UNLIMITED_ALGORITHMS, make_federation
from pfpne.algorithms.fed1_ucb import ArmMeans
from pfpne.algorithms.pf_pne import Kept, KeptIndex, NodeMeans, PFPNESettings, half_width, n_pulls_per_client
from pfpne.disclosure import SERVER
from pfpne.federation import Batch
from pfpne.journal import Journal
from pfpne.live import Done, LiveClient, LiveServer, drive
from pfpne.live.plan import GoOn
from pfpne.messages import Message
from pfpne.paths import INPUT_ROOT as CHECKOUT

M, T = 3, 40


def journal(folder, m: int) -> list[dict]:
    return Journal(folder / f"client-{m}" / "evaluations.jsonl").read()


def state(folder, m: int):
    return pfpne.load(folder / f"client-{m}" / "state")["client"]


def together(name: str, horizon: int, **settings):
    """The same run in one process, with nothing missing: its federation at the end."""
    run = make_federation(name, task(M, horizon), **settings)
    while run.running:
        for m, batch in run.ask():
            run.tell(m, np.repeat([objective(m, x) for x in batch.points], batch.counts))
    return run


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["live_client"])  # it is imported once, not by each process


class Processes:
    """Clients in processes of their own. One that has died is started again when it is asked.

    gone: clients that are not there. busy: those that have not answered yet, and are not asked again. twice: everything
    is said twice, both ways. traffic: (way, m, text).
    """

    def __init__(self, name, folder, horizon=T, settings=None, how=None):
        self.arguments = {"name": name, "M": M, "horizon": horizon, "settings": settings or {}}
        self.folder, self.how, self.gone, self.twice = folder, how or {}, set(), False
        self.processes, self.connections, self.starts = {}, {}, [0] * M
        self.busy, self.came, self.traffic = set(), queue.Queue(), []

    def start(self, m: int):
        arguments = {**self.arguments, "m": m, "folder": self.folder / f"client-{m}", **self.how.get(m, {})}
        self.connections[m], theirs = CONTEXT.Pipe()
        self.processes[m] = CONTEXT.Process(target=main, args=(theirs,), kwargs=arguments, daemon=True)
        with pytest.MonkeyPatch.context() as patch:  # the process from which the others are forked looks there only
            patch.setenv("PYTHONPATH", str(CHECKOUT / "tests"), prepend=os.pathsep)
            self.processes[m].start()
        theirs.close()
        self.starts[m] += 1
        threading.Thread(target=self._listen, args=(m, self.connections[m]), daemon=True).start()

    def _listen(self, m: int, connection):
        try:
            while True:
                self.came.put((m, connection.recv()))
        except (EOFError, OSError):
            self.came.put((m, None))

    def send(self, m: int, text: str):
        self.traffic.append(("down", m, text))
        if m in self.gone or m in self.busy:
            return
        if m not in self.processes or not self.processes[m].is_alive():
            self.start(m)
        self.busy.add(m)
        try:
            for _ in range(1 + self.twice):
                self.connections[m].send(text)
        except BrokenPipeError:
            self.came.put((m, None))

    def receive(self):
        try:
            m, text = self.came.get(timeout=0.05)
        except queue.Empty:
            return []
        self.busy.discard(m)
        if text is not None:
            self.traffic.append(("up", m, text))
        return [(m, text)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.join()


def serve(server, processes):
    """Drive to the end, however slow the machine: a deadline without a quorum is waited for again."""
    while server.running:
        with contextlib.suppress(TimeoutError):
            drive(server, processes.send, processes.receive)


def assert_as_together(folder, run):
    for m, client in enumerate(run.clients):
        assert state(folder, m).t == client.t == len(journal(folder, m))
        assert np.array_equal(state(folder, m).best(), client.best())
        assert all(line["reward"] == objective(m, line["point"]) for line in journal(folder, m))


def test_a_client_that_is_killed_starts_again_and_nothing_is_lost_nor_paid_twice(tmp_path):
    with Processes("pf-pne", tmp_path, how={1: {"dies_at": 17}}) as clients:
        serve(LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600), clients)
        assert clients.starts == [1, 2, 1]
    assert_as_together(tmp_path, together("pf-pne", T))


def test_only_declared_messages_pass_and_no_reward(tmp_path):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    with Processes("pf-pne", tmp_path) as clients:
        serve(server, clients)
    row = ALGORITHMS["pf-pne"]
    passed = {"up": set(), "down": set()}
    for way, _, text in clients.traffic:
        if text:
            message = Message.from_json(text)
            passed[way].add(type(message))
            assert message.to_json(server.run_tag) == text
    assert passed == {"up": {*row.up_kinds, Done}, "down": {*row.down_kinds, GoOn}}


def test_a_phase_without_a_client_is_concluded_by_a_quorum_with_the_mean_over_those_that_answered(tmp_path, caplog):
    with Processes("pf-pne", tmp_path, settings={"Delta": 0.2}) as clients:
        clients.gone.add(2)
        server = LiveServer(
            "pf-pne", task(M, T), tmp_path / "server", deadline=0.2, quorum=2, last_deadline=0.2, Delta=0.2
        )
        serve(server, clients)
    settings, up = PFPNESettings(Delta=0.2), {}
    log_term = settings.log_term_for(T, M)
    answers = 0
    for way, m, text in clients.traffic:
        message = Message.from_json(text) if text else None
        if isinstance(message, NodeMeans):
            up.setdefault(message.header, {})[m] = message.means
        elif way == "down" and not isinstance(message, GoOn):
            means = np.mean([up[message.header][m] for m in (0, 1)], axis=0)
            kept = [np.flatnonzero(means == mean)[0] for mean in message.means]
            assert np.array_equal(message.means, means[kept])
            n = 2 * n_pulls_per_client(message.header, log_term, settings, M)
            assert np.array_equal(message.half_widths, np.full(len(message.index), half_width(n, log_term, settings.c)))
            answers += 1
    assert answers >= 4 and "concluded with clients [0, 1]" in caplog.text and not (tmp_path / "client-2").exists()
    assert [state(tmp_path, m).t for m in (0, 1)] == [T, T]


def test_a_client_that_comes_back_is_sent_what_it_missed(tmp_path, caplog):
    """It is gone for the first two exchanges; from then on all are waited for, and the means are over three."""
    with Processes("fed-pne", tmp_path, horizon=300) as clients:
        clients.gone.add(2)
        server = LiveServer("fed-pne", task(M, 300), tmp_path / "server", deadline=0.2, quorum=2)

        def receive():
            if len(server._past_broadcasts) >= 2 and 2 in clients.gone:
                clients.gone.clear()
                server.deadline = math.inf
                clients.came.put((2, None))  # it can be asked again
            return clients.receive()

        while server.running:
            with contextlib.suppress(TimeoutError):
                drive(server, clients.send, receive)
    assert caplog.text.count("concluded with clients [0, 1]") == 2
    said = {m: [text for way, k, text in clients.traffic if (way, k) == ("up", m) and text] for m in (0, 2)}
    up = {
        m: [message.header for message in map(Message.from_json, texts) if not isinstance(message, Done)]
        for m, texts in said.items()
    }
    assert up[0] == up[2] and len(up[0]) > 2  # the same phases, all of them
    assert [state(tmp_path, m).t for m in range(M)] == [300] * M
    assert server.server.n_present == 3


def test_a_client_that_lost_its_state_goes_on_from_its_journal(tmp_path):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    with Processes("pf-pne", tmp_path, how={1: {"dies_at": 17}}) as clients:

        def send(m, text):
            if m == 1 and clients.starts[1] == 1 and not clients.processes[1].is_alive():
                assert clients.processes[1].exitcode == -signal.SIGKILL
                (tmp_path / "client-1" / "state").unlink()
            clients.send(m, text)

        drive(server, send, clients.receive)
    assert_as_together(tmp_path, together("pf-pne", T))


def test_the_server_starts_again_from_what_it_saved(tmp_path):
    """After every single answer; its clients as well."""
    servers = 0
    with Processes("pf-pne", tmp_path) as clients:
        while (server := LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)).running:

            def receive(server=server):
                came = clients.receive()
                if came:
                    server.stop()
                return came

            drive(server, clients.send, receive)
            servers += 1
    assert servers > 6
    assert_as_together(tmp_path, together("pf-pne", T))


def test_a_server_that_starts_again_knows_how_many_evaluations_each_client_has_made(tmp_path):
    """Of 20 arms of equal means all stay; in each phase an arm is pulled 10 log 2,000 times."""
    for concluded in range(3):
        server = LiveServer("fed1-ucb", task(M, 2_000), tmp_path / "server", deadline=600)
        assert server.n_evaluated == concluded * 20 * 76
        for m in range(M):
            server.take(m, ArmMeans(concluded + 1, np.full(20, 0.5)).to_json(server.run_tag))


def test_a_server_counts_the_evaluations_of_the_phases_that_are_concluded(tmp_path):
    """Of equal means all nodes stay: there are 1, 2, 4, ... of them, each pulled once in its phase."""
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    for h in range(3):
        assert server.n_evaluated == 2**h - 1
        for m in range(M):
            server.take(m, NodeMeans(h, np.full(2**h, 0.5)).to_json(server.run_tag))
    assert server.n_evaluated == 7


def test_what_is_said_twice_counts_once(tmp_path, caplog):
    with Processes("pf-pne", tmp_path) as clients:
        clients.twice = True
        serve(LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600), clients)
    assert_as_together(tmp_path, together("pf-pne", T))
    assert "late" in caplog.text and not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_evaluation_that_fails_is_missing_and_the_others_of_its_node_count(tmp_path):
    """pf-pne begins with the root, pulled twice by each: of client 0 the first fails, of client 1 both are nan."""
    how = {0: {"fails": [1]}, 1: {"nan": [1, 2]}}
    settings = {"c": 1.0, "missing": 0.25}
    with Processes("pf-pne", tmp_path, horizon=9, settings=settings, how=how) as clients:
        serve(LiveServer("pf-pne", task(M, 9), tmp_path / "server", deadline=600, c=1.0), clients)
    up = [(m, text) for way, m, text in reversed(clients.traffic) if way == "up" and "Done" not in text]
    root = {m: Message.from_json(text) for m, text in up}
    assert {m: message.header for m, message in root.items()} == dict.fromkeys(range(M), 0)
    assert [root[m].means.tolist() for m in range(M)] == [[objective(0, [0.5])], [0.25], [objective(2, [0.5])]]
    lines = journal(tmp_path, 0)[:1] + journal(tmp_path, 1)[:2]
    assert [line["why"] for line in lines] == ["ZeroDivisionError: evaluation 1", "it gave nan", "it gave nan"]
    assert [len(journal(tmp_path, m)) for m in range(M)] == [9, 9, 9]


def in_one_process(name, folder, horizon, evaluate=objective, known=None, stop_after=None, **settings):
    """Server and clients as in live use, called by turns."""
    server = LiveServer(name, task(M, horizon), folder / "server", deadline=600, **settings)
    clients, came, answers = {}, [], 0

    def send(m, text):
        of_m = None if known is None else known / f"client-{m}" / "evaluations.jsonl"
        arguments = (name, task(M, horizon), m, lambda x: evaluate(m, x), folder / f"client-{m}")
        clients[m] = LiveClient(*arguments, known=of_m, **settings)
        came.append((m, clients[m].answer(text)))

    def receive():
        nonlocal answers
        answers += len(came)
        if stop_after is not None and answers >= stop_after:
            server.stop()
        yield from list(came)
        came.clear()

    drive(server, send, receive)
    return clients


def small(name) -> tuple[int, dict]:
    """A horizon at which an algorithm exchanges messages, and settings for that."""
    return {"fed1-ucb": (250, {"c_pulls": 1.0}), "fn-ucb": (4, {}), "centralized": (5, {})}.get(name, (40, {}))


@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
def test_every_algorithm_lives_as_it_is_simulated(name, tmp_path):
    horizon, settings = small(name)
    in_one_process(name, tmp_path, horizon, **settings)
    run = together(name, horizon, **settings)
    for m, client in enumerate(run.clients):
        assert state(tmp_path, m).t == horizon and np.array_equal(state(tmp_path, m).best(), client.best())


def test_stopped_early_it_has_a_best_and_goes_on_later(tmp_path):
    clients = in_one_process("pf-pne", tmp_path, T, stop_after=7)
    assert all(0 < client.t < T and 0 <= client.best()[0] <= 1 for client in clients.values())
    in_one_process("pf-pne", tmp_path, T)
    assert_as_together(tmp_path, together("pf-pne", T))


def test_longer_than_planned_what_was_evaluated_serves_again(tmp_path):
    """A longer plan in a new folder: the same as from the start, and only what was not known is evaluated."""
    made = []

    def evaluate(m, x):
        made.append(m)
        return objective(m, x)

    in_one_process("pf-pne", tmp_path / "short", T)
    in_one_process("pf-pne", tmp_path / "long", 2 * T, evaluate, known=tmp_path / "short")
    assert_as_together(tmp_path / "long", together("pf-pne", 2 * T))
    reused = 0
    for m in range(M):
        short, long = (Counter(str(line["point"]) for line in journal(tmp_path / run, m)) for run in ("short", "long"))
        reused += (short & long).total()
    assert len(made) == 2 * M * T - reused and reused > M * T / 2


@pytest.mark.parametrize("name", [name for name in UNLIMITED_ALGORITHMS if ALGORITHMS[name].up_kinds])
def test_who_cannot_do_without_a_client_says_so(name, tmp_path):
    arguments = (name, task(M, T), tmp_path)
    if name in ("pf-pne", "fed-pne", "fed1-ucb"):
        LiveServer(*arguments, deadline=1, quorum=2)
        return
    with pytest.raises(ValueError, match=f"{re.escape(name)} cannot do without one of its clients"):
        LiveServer(*arguments, deadline=1, quorum=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [0, -1, math.nan, "x", None, True])
def test_deadlines_are_seconds(wrong, tmp_path):
    for times in ({"deadline": wrong}, {"deadline": 1, "last_deadline": wrong}):
        with pytest.raises(ValueError, match="deadline must be a number of seconds > 0"):
            LiveServer("pf-pne", task(M, T), tmp_path, **times)


def test_fed1_ucb_without_a_client_averages_those_it_has(tmp_path):
    """With this sigma, a mean divided by three, and a width for three, would each keep other arms."""
    server = LiveServer("fed1-ucb", task(M, 2_000), tmp_path / "server", deadline=1e-9, quorum=2, sigma=0.3)
    two = make_federation("fed1-ucb", task(2, 2_000), sigma=0.3)
    up = {m: client.tell(np.linspace(0, 1, client.ask().size)) for m, client in enumerate(two.clients)}
    expected = two.server.exchange(up)
    for m, message in up.items():
        server.take(m, message.to_json(server.run_tag))
    server.tick()
    assert [server.mail(m) for m in range(M)] == [expected[m].to_json(server.run_tag) for m in range(2)] + [
        server._go_on_text
    ]
    assert server.server.phase == 2 and server.server.task.n_clients == M


def test_without_a_quorum_a_deadline_says_who_is_missing_and_one_may_wait_on(tmp_path):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=1e-9, quorum=2)
    message = make_federation("pf-pne", task(M, T)).clients[0].tell([0.5])
    server.take(0, message.to_json(server.run_tag))
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"clients \[1, 2\] have not answered .* 1 have, and 2 are needed"):
            server.tick()
    server.take(2, message.to_json(server.run_tag))
    server.tick()
    assert server.mail(0) == server.mail(2) != server.mail(1) == server._go_on_text
    assert server.clients_to_ask() == [0, 1, 2]
    server.take(1, message.to_json(server.run_tag))  # late, and known to the server all the same
    assert server.mail(1) == server.mail(0) and server.clients_to_ask() == [0, 1, 2]
    assert [counts.total() for counts in server._disclosure.means[SERVER]] == [1, 1, 1]


def test_a_deadline_runs_from_the_last_exchange(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("pfpne.live.server.time", SimpleNamespace(monotonic=lambda: now[0]))
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=10)
    now[0] = 9.0
    for m, client in enumerate(make_federation("pf-pne", task(M, T)).clients):
        server.take(m, client.tell([0.5]).to_json(server.run_tag))
    assert server.server.concluded_depth == 0
    for now[0] in (11.0, 18.9):
        server.tick()
    late = r"clients \[0, 1, 2\] have not answered within 10 s; 0 have, and 3"
    for now[0], passed in ((19.0, True), (28.9, False), (29.0, True)):  # and from the last error
        with pytest.raises(TimeoutError, match=late) if passed else contextlib.nullcontext():
            server.tick()


def test_for_the_work_after_the_last_exchange_there_is_another_deadline(tmp_path, monkeypatch):
    """With hct there is no exchange. A server that was stopped has no deadline."""
    now = [0.0]
    monkeypatch.setattr("pfpne.live.server.time", SimpleNamespace(monotonic=lambda: now[0]))
    server = LiveServer("hct", task(M, T), tmp_path / "server", deadline=10, last_deadline=100)
    now[0] = 99.9
    server.tick()
    now[0] = 100.0
    with pytest.raises(TimeoutError, match="have not answered within 100 s; 0 have, and 3"):
        server.tick()
    server.stop()
    now[0] = 200.0
    server.tick()


def test_a_client_that_says_that_it_is_ahead_is_waited_for_until_the_deadline_and_asked_again(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("pfpne.live.server.time", SimpleNamespace(monotonic=lambda: now[0]))
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=10)
    ahead, right = (NodeMeans(header, [0.5]).to_json(server.run_tag) for header in (3, 0))
    with pytest.raises(ValueError, match="it is asked again after the deadline"):
        server.take(0, ahead)
    for m in (1, 2):
        server.take(m, right)
    assert server.running and server.clients_to_ask() == []
    now[0] = 10.0
    with pytest.raises(TimeoutError, match=r"clients \[0\] have not answered"):
        server.tick()
    assert server.clients_to_ask() == [0]
    server.take(0, right)
    assert server.server.concluded_depth == 0 and server.clients_to_ask() == [0, 1, 2]


def test_a_client_that_says_that_it_is_ahead_after_its_message_is_asked_again_after_the_exchange(tmp_path):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    ahead, right = (NodeMeans(header, [0.5]).to_json(server.run_tag) for header in (3, 0))
    server.take(0, right)
    with pytest.raises(ValueError, match="it is asked again after the deadline"):
        server.take(0, ahead)
    for m in (1, 2):
        server.take(m, right)
    assert server.server.concluded_depth == 0 and server.clients_to_ask() == [0, 1, 2]


def test_a_server_that_starts_again_may_have_another_quorum(tmp_path):
    for quorum in (3, 2):
        server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=1e-9, quorum=quorum)
    for m in (0, 2):
        server.take(m, NodeMeans(0, [0.5]).to_json(server.run_tag))
    server.tick()
    assert server.server.concluded_depth == 0 and server.server.n_present == 2


def test_a_wrong_answer_is_refused_and_changes_nothing(tmp_path, caplog):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    before = (tmp_path / "server" / "state").read_bytes()
    of_another, too_long = KeptIndex(0, [1]).to_json(server.run_tag), NodeMeans(0, [0.5, 0.5]).to_json(server.run_tag)
    of_another_plan, impossible = NodeMeans(0, [0.5]).to_json("01234567"), NodeMeans(0, [2e9]).to_json(server.run_tag)
    costly = '{"kind":"NodeMeans","header":0,"means":["' + "a" * 5_000 + '"' + ',""' * 5_000 + "]}"
    idle = Done(0).to_json(server.run_tag)
    texts = ["rubbish", too_long, of_another, of_another_plan, impossible, costly, idle, "", 0, b"{}", ["x"]]
    wrong = iter(texts)

    def receive():
        text = next(wrong, None)
        if text is None:
            server.stop()
        return [(0, text)]

    drive(server, lambda m, text: None, receive)
    assert caplog.text.count("client 0: refused") == len(texts)
    assert (tmp_path / "server" / "state").read_bytes() == before


@pytest.mark.parametrize("secure", [False, True])
def test_a_client_that_cannot_be_done_does_not_end_it(secure, tmp_path):
    """It says that it has made more evaluations than there are; with masks, any before the keys have come."""
    if secure:
        pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600, secure=secure)
    before = (tmp_path / "server" / "state").read_bytes()
    for evaluations in (T + 1, 10**9, *([T] if secure else [])):
        with pytest.raises(ValueError, match=f"client 0 says that it is done, after {evaluations} evaluations"):
            server.take(0, Done(evaluations).to_json(server.run_tag))
    assert not server.idle and (tmp_path / "server" / "state").read_bytes() == before


def test_a_client_that_only_fails_stops_and_says_why(tmp_path):
    def evaluate(x):
        raise OSError("no such table")

    client = LiveClient("pe", task(1, 50), 0, evaluate, tmp_path, give_up=4)
    with pytest.raises(RuntimeError, match="4 evaluations in a row failed, at last: OSError: no such table"):
        client.answer()
    assert len(Journal(tmp_path / "evaluations.jsonl").read()) == 3
    client = LiveClient("pe", task(1, 50), 0, lambda x: 0.5, tmp_path)
    assert Message.from_json(client.answer()).header == 50 == client.t


def test_a_client_that_never_fails_so_often_in_a_row_goes_on(tmp_path):
    rewards = [math.nan, math.nan, 0.5] * 17  # two of three fail, but never three in a row
    values = iter(rewards)
    client = LiveClient("pe", task(1, 50), 0, lambda x: next(values), tmp_path, give_up=3)
    assert Message.from_json(client.answer()).header == 50 == client.t
    written = [line["reward"] for line in Journal(tmp_path / "evaluations.jsonl").read()]
    assert written == [None if math.isnan(reward) else reward for reward in rewards[:50]]


@pytest.mark.parametrize("fails", [0, 3, 7])
def test_a_failure_among_the_first_evaluations_is_no_noise(fails, tmp_path):
    """The eight rewards that the noise is measured by are pulled one by one: a missing one counts as their mean."""
    values = iter([0.6 if i != fails else math.nan for i in range(8)])
    client = LiveClient("hct-noise", task(1, 20), 0, lambda x: next(values), tmp_path)
    assert client._rewards(client.client.ask()) == pytest.approx([0.6] * 8)


def test_an_evaluation_is_tried_again(tmp_path):
    """At the same point, though `evaluate` changes the one that it is given."""
    values, points = iter([math.inf, 1e150, 0.3, math.nan, 0.4, "an error", 0.5]), []

    def evaluate(x):
        points.append(x.tolist())
        x[0] = 7.0
        value = next(values)
        if value == "an error":
            raise OSError(value)
        return value

    client = LiveClient("hct", task(1, 3), 0, evaluate, tmp_path, retries=2)
    assert isinstance(Message.from_json(client.answer()), Done)
    lines = client.journal.read()
    assert [line["reward"] for line in lines] == [0.3, 0.4, 0.5]
    assert points == [lines[n]["point"] for n in (0, 0, 0, 1, 1, 2, 2)]


def test_failures_in_a_row_are_counted_anew_after_the_error(tmp_path):
    client = LiveClient("hct", task(1, 9), 0, lambda x: math.nan, tmp_path, give_up=3)
    for n_written in (2, 4, 6):  # the last failure of each row is an error, and tried again
        with pytest.raises(RuntimeError, match="3 evaluations in a row failed"):
            client.answer()
        assert len(client.journal.read()) == n_written


def test_a_client_that_starts_again_knows_the_other_rewards_of_a_missing_one(tmp_path):
    """One before the state was saved, and one that the journal alone has."""
    client = LiveClient("pf-pne", task(M, T), 0, lambda x: 0.75, tmp_path)
    client.answer()
    assert client.t == 1
    client.journal.append(t=2, point=[0.5], reward=0.25)
    client = LiveClient("pf-pne", task(M, T), 0, lambda x: math.nan, tmp_path)
    assert client._rewards(Batch(np.array([[0.5], [0.25]]), np.array([2, 1]))).tolist() == [0.25, 0.5, 0.0]


def test_a_known_reward_serves_once_also_after_a_restart_and_a_missing_one_never(tmp_path):
    known = Journal(tmp_path / "known")
    for t, reward in enumerate((None, 0.25, 0.75), 1):
        known.append(t=t, point=[0.5], reward=reward)

    def a_client(evaluate):
        return LiveClient("pf-pne", task(M, T), 0, evaluate, tmp_path / "client", known=known.path)

    assert json.loads(a_client(lambda x: pytest.fail("it evaluated")).answer())["means"] == [0.25]
    batch = Batch(np.array([[0.5]]), np.array([2]))
    assert a_client(lambda x: 0.5)._rewards(batch).tolist() == [0.75, 0.5]


def test_a_folder_of_another_run_is_refused_and_a_torn_line_mended(tmp_path):
    LiveClient("hct", task(1, 3), 0, lambda x: 0.5, tmp_path).answer()
    for other in (("hct", task(1, 4)), ("hoo", task(1, 3))):
        with pytest.raises(ValueError, match="another run"):
            LiveClient(*other, 0, lambda x: 0.5, tmp_path)
    with pytest.raises(ValueError, match="another run"):
        LiveClient("hct", task(1, 3), 0, lambda x: 0.5, tmp_path, missing=0.25)
    path = tmp_path / "evaluations.jsonl"
    (tmp_path / "state").unlink()
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    client = LiveClient("hct", task(1, 3), 0, lambda x: 0.5, tmp_path)
    assert Message.from_json(client.answer()).header == client.t == 3 and path.read_bytes() == whole
    (tmp_path / "state").unlink()
    path.write_bytes(whole.replace(b'"t": 2', b'"t": 7'))
    with pytest.raises(ValueError, match="damaged"):
        LiveClient("hct", task(1, 3), 0, lambda x: 0.5, tmp_path)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_flower_example_takes_every_algorithm(name, tmp_path, monkeypatch):
    """Its settings are those of the algorithm that its configuration names; the one it begins with needs no Delta."""
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples" / "flower"))
    problem = importlib.import_module("pfpne_flower.problem")
    config = tomllib.loads((CHECKOUT / "examples/flower/pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert "Delta" not in problem.settings(config)
    config["algorithm"] = name
    arguments, settings = problem.plan(config), problem.settings(config)
    server = LiveServer(*arguments, tmp_path / "server", deadline=600, **settings)
    client = LiveClient(*arguments, 0, problem.objective(0, config), tmp_path / "client", **settings)
    client.answer(server.mail(0))
    assert client.t > 0


def test_the_flower_example_tells_the_server_nothing_of_why_it_failed(tmp_path, monkeypatch, caplog):
    """Flower sends the text of an error to the server. Flower itself is not needed here."""
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples" / "flower"))
    stand_in = SimpleNamespace(ConfigRecord=dict, RecordDict=dict, Message=dict, Context=dict)
    stand_in.ClientApp = lambda: SimpleNamespace(query=lambda: lambda function: function)
    for name in ("flwr", "flwr.app", "flwr.clientapp"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    example = runpy.run_path(str(CHECKOUT / "examples/flower/pfpne_flower/client.py"))
    config = {"algorithm": "pf-pne", "n-clients": 3, "horizon": 60, "seconds": 0.0, "quorum": 3, "folder": "here"}
    context = SimpleNamespace(run_config=config, node_config={"partition-id": 0, "folder": str(tmp_path)})
    example["query"].__globals__["objective"] = lambda m, config: float("reward 0.123")
    with pytest.raises(RuntimeError, match="^a client failed; the log at its site says why.$") as error:
        example["query"](SimpleNamespace(content={"mail": {"text": ""}}), context)
    assert error.value.__suppress_context__ and "reward 0.123" in caplog.text


def test_of_two_messages_of_a_client_in_one_exchange_the_first_counts(tmp_path, caplog):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    for mean in (0.5, 0.75):
        server.take(0, NodeMeans(0, [mean]).to_json(server.run_tag))
    assert server.inbox[0].means.tolist() == [0.5]
    assert caplog.messages == ["client 0: a NodeMeans came twice, or late: ignored"]


def test_a_sender_that_is_no_client_is_refused(tmp_path, caplog):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    text, senders = NodeMeans(0, [0.5]).to_json(server.run_tag), iter(["x", [1], None, -1, M, 0.0, True])

    def receive():
        m = next(senders, "end")
        if m == "end":
            server.stop()
        return [(m, text)]

    drive(server, lambda m, text: None, receive)
    assert caplog.text.count("refused: the sender must be") == 8 and not server.inbox


def test_a_client_refuses_the_texts_of_another_plan(tmp_path):
    """Of the same algorithm, at another horizon."""
    client = LiveClient("pf-pne", task(M, T), 0, lambda x: 0.5, tmp_path)
    assert isinstance(Message.from_json(client.answer()), NodeMeans)
    before = (tmp_path / "state").read_bytes()
    other = LiveServer("pf-pne", task(M, 2 * T), tmp_path / "other", deadline=600)
    for m in range(M):
        other.take(m, NodeMeans(0, [0.5]).to_json(other.run_tag))
    with pytest.raises(ValueError, match="the plan of a message must be"):
        client.answer(other.mail(0))
    assert (tmp_path / "state").read_bytes() == before


def test_of_a_text_longer_than_what_is_awaited_a_client_reads_the_head_alone(tmp_path, monkeypatch, caplog):
    """At a horizon of a million it once read 67 MB before it looked at the kind."""
    plan = "pf-pne", task(M, 10**6)
    server = LiveServer(*plan, tmp_path / "server", deadline=600)
    client = LiveClient(*plan, 0, lambda x: 0.5, tmp_path / "client")
    server.take(0, client.answer(server.mail(0)))
    sent = client.answer(server.mail(0))
    server.take(0, sent)
    before = (tmp_path / "client" / "state").read_bytes()

    def text(kind: str, header: int, plan: str = server.run_tag) -> str:
        return f'{{"plan": "{plan}", "kind": "{kind}", "header": {header}, "index": [{"1, " * 10**6}1]}}'

    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was read"))
    for long in (text("Kept", 0), text("KeptIndex", 7), text("Kept", 7, "0" * 24), text("Kept", 7)[1:], "[" * 10**7):
        with pytest.raises(ValueError, match="a text of at most [0-9]{3} characters is wanted; got one of"):
            client._receive(long)
    client._receive(text("Kept", 7))
    assert "the server is ahead, at 7" in caplog.text
    monkeypatch.undo()
    assert client.answer() == sent and (tmp_path / "client" / "state").read_bytes() == before
    server.take(1, server_text := sent)
    server.take(2, server_text)
    asked = server.mail(0)
    after = json.loads(client.answer(asked))
    assert after["header"] == 1
    client._receive(text("Kept", 0))
    assert "a long Kept of header 0 is late: ignored" in caplog.text


def test_a_server_takes_no_text_longer_than_what_it_awaits(tmp_path):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    text, longest = NodeMeans(0, [0.5]).to_json(server.run_tag), server.server.awaits(0).max_characters()
    for m in range(2):
        with pytest.raises(ValueError, match=f"at most {longest} characters is wanted; got one of {longest + 1}"):
            server.take(m, text.ljust(longest + 1))
        server.take(m, text.ljust(longest))
    assert sorted(server.inbox) == [0, 1]


def test_a_text_of_another_version_of_the_package_is_refused(tmp_path, monkeypatch):
    """It may count, or write its messages, in another way."""
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    monkeypatch.setattr("pfpne.live.plan.__version__", "0.0.9")
    client = LiveClient("pf-pne", task(M, T), 0, lambda x: 0.5, tmp_path / "client")
    with pytest.raises(ValueError, match="the plan of a message must be"):
        client.answer(server.mail(0))
    with pytest.raises(ValueError, match="the plan of a message must be"):
        server.take(0, client.answer())


def test_the_order_in_which_settings_are_given_is_no_part_of_the_plan(tmp_path):
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600, nu_1=2.0, rho=0.25)
    client = LiveClient("pf-pne", task(M, T), 0, lambda x: 0.5, tmp_path / "client", rho=0.25, nu_1=2.0)
    server.take(0, client.answer(server.mail(0)))
    assert sorted(server.inbox) == [0]


def test_a_server_whose_state_was_lost_says_so_at_once(tmp_path):
    """One client that says that it is ahead may lie, and is not asked again at once; all of them do not."""
    in_one_process("pf-pne", tmp_path, T, stop_after=7)
    (tmp_path / "server" / "state").unlink()
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    asked = []

    def send(m, text):
        asked.append(m)

    def receive():
        for m in sorted(set(asked)):
            yield m, LiveClient("pf-pne", task(M, T), m, None, tmp_path / f"client-{m}").outbox

    with pytest.raises(RuntimeError, match="the last concluded here is -1.* was lost or is an old one"):
        drive(server, send, receive)
    assert asked == [0, 1, 2]
    server = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600)
    with pytest.raises(ValueError, match="it is asked again after the deadline"):
        server.take(0, NodeMeans(3, [0.5]).to_json(server.run_tag))
    assert server.clients_to_ask() == [1, 2] and server.running


def test_two_processes_of_a_client_evaluate_by_turns_and_nothing_twice(tmp_path):
    made = []

    def evaluate(x):
        with pytest.raises(Timeout):
            FileLock(tmp_path / "lock", timeout=0).acquire()
        made.append(x)
        return 0.5

    first, second = (LiveClient("pf-pne", task(M, T), 0, evaluate, tmp_path) for _ in range(2))
    assert first.answer() == second.answer() and len(made) == 1


def test_two_servers_on_one_folder_lose_nothing(tmp_path):
    first, second = (LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600) for _ in range(2))
    text = NodeMeans(0, [0.5]).to_json(first.run_tag)
    first.take(0, text)
    with pytest.raises(OSError, match="another is at work there"):
        second.take(1, text)
    first.take(2, text)
    assert sorted(LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600).inbox) == [0, 2]


def test_a_text_of_an_earlier_run_of_the_same_plan_is_not_taken(tmp_path, caplog):
    """Each server draws a name for its run, which its first text tells: all texts have it from then on."""
    plan = "pf-pne", task(M, T)
    old, new = (LiveServer(*plan, tmp_path / name, deadline=600) for name in ("old", "new"))
    client = LiveClient(*plan, 0, lambda x: 0.5, tmp_path / "client")
    assert old.run_tag != new.run_tag and old.run_tag[:8] == new.run_tag[:8]
    unbound, bound = client.answer(), client.answer(old.mail(0))
    assert (unbound.replace(old.run_tag[:8], old.run_tag), bound) == (bound, client.answer())
    new.take(0, unbound)  # it may be of any run: the client is asked again
    with pytest.raises(ValueError, match="client 0 is in another run of this plan"):
        new.take(0, bound)
    assert not new.inbox and new.clients_to_ask() == [0, 1, 2]
    old.take(0, bound)
    assert sorted(LiveServer(*plan, tmp_path / "old", deadline=600).inbox) == [0]
    with pytest.raises(ValueError, match="the server is in another run of this plan"):
        client.answer(Kept(0, [1], [0.5], [0.5]).to_json(new.run_tag))
    assert client.answer(new.mail(0)) == bound and "the server is in another run" in caplog.text
    with pytest.raises(ValueError, match="a text of the server must be one that names its run"):
        client.answer(Kept(0, [1], [0.5], [0.5]).to_json(new.run_tag[:8]))


@pytest.mark.parametrize("text", ["rubbish", None])
def test_a_client_that_answers_nothing_of_use_is_asked_at_a_measured_pace(text, tmp_path):
    server, asked = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=600), []
    end = time.monotonic() + 0.5

    def receive():
        if time.monotonic() > end:
            server.stop()
        time.sleep(0.005)
        return [(m, text) for m in asked[-3:]]

    drive(server, lambda m, text: asked.append(m), receive)
    assert 6 <= len(asked) <= 3 * 5  # after pauses of 0.05, 0.1, 0.2 and 0.4 seconds


def test_a_message_is_due_if_its_phase_ends_at_the_horizon():
    server = make_federation("fed1-ucb", task(M, 2_000)).server
    assert server.phase_evaluations() == 20 * 76
    assert [server.is_due(0, 2_000 - 20 * 76 + more) for more in (0, 1)] == [True, False]


def test_a_client_is_asked_again_at_once_after_progress_and_its_pauses_begin_anew(tmp_path, monkeypatch):
    now, sent = [0.0], []
    monkeypatch.setattr("pfpne.live.server.time", SimpleNamespace(monotonic=lambda: now[0]))
    server = LiveServer("pf-pne", task(1, T), tmp_path / "server", deadline=600)

    def receive():
        now[0] = round(now[0] + 0.01, 2)
        if now[0] == 0.5:
            return [(0, NodeMeans(0, [0.5]).to_json(server.run_tag))]
        if now[0] == 0.7:
            server.stop()
        return [(0, "rubbish")]

    drive(server, lambda m, text: sent.append(now[0]), receive)
    assert sent == pytest.approx([0, 0.05, 0.15, 0.35, 0.5, 0.55, 0.65], abs=0.03)


def test_texts_that_are_refused_hold_up_no_deadline(tmp_path):
    server, texts = LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=1e-9), iter(["rubbish"] * 5)

    def receive():
        text = next(texts, None)
        if text is None:
            server.stop()
        return [(0, text)]

    with pytest.raises(TimeoutError, match=r"clients \[0, 1, 2\] have not answered"):
        drive(server, lambda m, text: None, receive)


@pytest.mark.parametrize("name", [name for name in UNLIMITED_ALGORITHMS if ALGORITHMS[name].up_kinds])
def test_a_client_that_says_at_the_horizon_that_it_is_done_is_not_believed_while_its_message_is_awaited(name, tmp_path):
    """It would end the federation for all that wait for the exchange."""
    horizon, settings = small(name)
    plan, came, refused = (name, task(M, horizon)), [], 0
    server = LiveServer(*plan, tmp_path / "server", deadline=600, **settings)

    def send(m, text):
        client = LiveClient(*plan, m, lambda x: objective(m, x), tmp_path / f"client-{m}", **settings)
        came.append((m, client.answer(text)))

    def receive():
        nonlocal refused
        for m, text in list(came):
            if '"Done"' not in text and m not in server.inbox and m == 0:
                with pytest.raises(ValueError, match=f"done, after {horizon} evaluations, and its .* is awaited"):
                    server.take(0, Done(horizon).to_json(server.run_tag))
                refused += 1
            yield m, text
        came.clear()

    drive(server, send, receive)
    assert refused >= 1 and not server.running
    run = together(name, horizon, **settings)
    for m, client in enumerate(run.clients):
        assert np.array_equal(state(tmp_path, m).best(), client.best())


def a_client(folder, **more):
    return LiveClient("hct", task(1, 9), 0, lambda x: 0.5, folder, **more)


def test_a_journal_shorter_than_the_state_is_refused_with_advice_that_helps(tmp_path):
    a_client(tmp_path).answer()
    path = tmp_path / "evaluations.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    for _ in range(2):
        with pytest.raises(ValueError, match="ends at evaluation 5, and the state .* is at 9.* remove the state"):
            a_client(tmp_path)
    (tmp_path / "state").unlink()
    a_client(tmp_path).answer()
    assert len(Journal(path).read()) == 9


def test_a_changed_journal_is_refused(tmp_path):
    """Every bit is covered by a checksum; a line with a right one may still say what cannot be."""
    a_client(tmp_path).answer()
    path = tmp_path / "evaluations.jsonl"
    whole = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged|ends at evaluation 8"):  # the last line's end makes it a torn one
            a_client(tmp_path)
    points, rewards = ([0.5, 0.5], "x", [None]), ("abc", 1e300, [1])
    for wrong in ({"t": 2}, *({"point": x} for x in points), *({"reward": x} for x in rewards)):
        path.unlink()
        Journal(path).append(**{"t": 1, "point": [0.5], "reward": 0.5, **wrong})
        with pytest.raises(ValueError, match="line 1 of .* The journal is damaged. Put it back"):
            a_client(tmp_path, known=None)
    for line in ({"t": 1, "point": [0.5]}, {"x": 1}):
        path.unlink()
        Journal(path).append(**line)
        with pytest.raises(ValueError, match="The journal is damaged"):
            a_client(tmp_path / "other", known=path)


def test_a_pipe_a_device_and_a_folder_are_no_journal_and_no_state(tmp_path):
    for name in ("evaluations.jsonl", "state"):
        for what in ("pipe", "device", "folder"):
            folder = tmp_path / f"{name} {what}"
            folder.mkdir()
            path = folder / name
            {"pipe": os.mkfifo, "device": lambda p: p.symlink_to("/dev/zero"), "folder": os.mkdir}[what](path)
            with pytest.raises(ValueError, match="and a file is wanted"):
                a_client(folder)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="cannot be a folder to keep a state in"):
        a_client(tmp_path / "file")


def test_a_full_disk_names_the_file_and_nothing_is_lost(tmp_path, monkeypatch):
    def a_client(folder) -> LiveClient:
        return LiveClient("pf-pne", task(M, T), 0, lambda x: 0.5, tmp_path / folder)

    def is_full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    client, advice = a_client("full"), "No space left on device: it was not written, and .* Make room, and start again"
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", is_full)
        with pytest.raises(OSError, match=f"{advice}: '.*evaluations.jsonl'"):
            client.answer()
        with pytest.raises(OSError, match=f"{advice}: '.*state'"):
            LiveServer("pf-pne", task(M, T), tmp_path / "server", deadline=60)
    assert client.answer() == a_client("other").answer()


def test_whoever_evaluates_may_change_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    def evaluate(x):
        os.chdir(tmp_path / "elsewhere")
        return 0.5

    client = LiveClient("hct", task(1, 9), 0, evaluate, "here")
    client.answer()
    assert client.t == 9 and not list((tmp_path / "elsewhere").iterdir())


def test_the_page_runs_as_it_stands(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # else the folder that it makes would stay
    page = (CHECKOUT / "docs" / "live.md").read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)), {})
    best = np.array(ast.literal_eval(capsys.readouterr().out.splitlines()[0])).ravel()
    assert np.abs(best - [0.2, 0.4, 0.7]).max() < 0.05


@pytest.mark.parametrize("secure", [False, True])
def test_a_damaged_state_is_refused_with_what_to_do(secure, tmp_path):
    """And nothing is lost: with the client's state removed, the run ends as it would have."""
    if secure:
        pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=secure)
    for content in (b"", b"junk"):
        client = "remove the whole folder, at all sites" if secure else "remove it: its journal"
        for folder, advice in (("client-1", client), ("server", "begin anew, with new folders")):
            whole = (tmp_path / folder / "state").read_bytes()
            (tmp_path / folder / "state").write_bytes(content)
            with pytest.raises(ValueError, match=f"Put it back from a copy; without one, {advice}"):
                in_one_process("pf-pne", tmp_path, 60, secure=secure)
            (tmp_path / folder / "state").write_bytes(whole)
    (tmp_path / "client-1" / "state").unlink()
    in_one_process("pf-pne", tmp_path, 60, secure=secure)
    assert [state(tmp_path, m).t for m in range(3)] == [60, 60, 60]


def test_a_state_of_the_right_plan_without_its_entries_is_refused(tmp_path):
    """Somebody made it up: a sentence says what is missing and what to do."""
    client = LiveClient("pf-pne", task(3, 60), 0, lambda x: 0.5, tmp_path / "client")
    server = LiveServer("pf-pne", task(3, 60), tmp_path / "server", deadline=9)
    pfpne.save(tmp_path / "client" / "state", {"plan": client.own_plan, "run": ""})
    pfpne.save(tmp_path / "server" / "state", {"plan": server.agreed_plan})
    with pytest.raises(
        ValueError, match="lacks client, outgoing, server_header. Put it back from a copy; without one, remove"
    ):
        LiveClient("pf-pne", task(3, 60), 0, lambda x: 0.5, tmp_path / "client")
    with pytest.raises(ValueError, match="lacks disclosure, .*. Put it back from a copy; without one, begin anew"):
        LiveServer("pf-pne", task(3, 60), tmp_path / "server", deadline=9)


@pytest.mark.parametrize("entry", ["client", "outgoing", "run", "server_header"])
def test_a_made_up_state_of_a_client_is_refused_in_a_sentence(entry, tmp_path):
    """Its checksum is right, and its plan; loading it runs nothing, and using it says what to do."""
    client = LiveClient("pf-pne", task(3, 60), 0, lambda x: 0.5, tmp_path)
    client.answer()
    saved = pfpne.load(tmp_path / "state")
    for nonsense in (5.0, [None], make_federation("hct", task(3, 60)).clients[0]):
        pfpne.save(tmp_path / "state", {**saved, entry: nonsense})
        with pytest.raises(ValueError, match="holds what no run has saved .* without one, remove it"):
            LiveClient("pf-pne", task(3, 60), 0, lambda x: 0.5, tmp_path)
    saved["client"]._batch, batch = 6.0, saved["client"]._batch
    pfpne.save(tmp_path / "state", saved)
    with pytest.raises(ValueError, match="what a client evaluates next must be a batch"):
        LiveClient("pf-pne", task(3, 60), 0, lambda x: 0.5, tmp_path)
    saved["client"]._batch = batch
    del saved["client"].__dict__["t"]
    pfpne.save(tmp_path / "state", saved)
    with pytest.raises(ValueError, match="holds what no run has saved .* without one, remove it"):
        LiveClient("pf-pne", task(3, 60), 0, lambda x: 0.5, tmp_path)


@pytest.mark.parametrize(
    "entry", ["server", "inbox", "idle", "disclosure", "evaluated", "mail", "past_broadcasts", "longest_text"]
)
def test_a_made_up_state_of_a_server_is_refused_in_a_sentence(entry, tmp_path):
    """Where it would have ended in an error without advice, at the start or later."""
    LiveServer("pf-pne", task(3, 60), tmp_path, deadline=9)
    saved = pfpne.load(tmp_path / "state")
    for nonsense in (5.5, {"a": 1}, [None]):
        pfpne.save(tmp_path / "state", {**saved, entry: nonsense})
        with pytest.raises(ValueError, match="holds what no run has saved .* begin anew"):
            LiveServer("pf-pne", task(3, 60), tmp_path, deadline=9)


@pytest.mark.parametrize("secure", [False, True])
def test_a_state_whose_client_or_server_is_not_whole_is_refused_at_once(secure, tmp_path):
    """Whatever of it is lacking, also of the client or server of the algorithm that is within, with masks."""
    if secure:
        pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    plan, folder = task(3, 60), tmp_path / "client"

    def open_server():
        return LiveServer("pf-pne", plan, tmp_path, deadline=9, secure=secure)

    def open_client():
        return LiveClient("pf-pne", plan, 0, lambda x: 0.5, folder, secure=secure)

    open_client().answer(open_server().mail(0))
    made_anew = {"_group", "_loop", "_request", "broadcast_digest", "quorum"}  # when restored, or by the class
    for path, entry, within, opened in (
        (folder, "client", "client", open_client),
        (tmp_path, "server", "server", open_server),
    ):
        right = (path / "state").read_bytes()
        kept = pfpne.load(path / "state")[entry]
        for part in (False, True)[: 1 + secure]:
            for name in vars(getattr(kept, within) if part else kept):
                saved = pfpne.load(path / "state")
                del vars(getattr(saved[entry], within) if part else saved[entry])[name]
                pfpne.save(path / "state", saved)
                if name not in made_anew:
                    with pytest.raises(
                        ValueError, match="(holds what no run has saved|cannot be read).* without one, "
                    ):
                        opened()
                (path / "state").write_bytes(right)
        opened()


TOO_LONG = "x" * 10**8


def hostile_texts(text: str) -> list:
    """What a client may send in the place of this text: too much, of a wrong type, cut, of a wrong kind or length."""
    content = json.loads(text)
    texts = ["x", "[]", b"bytes", 5, text[:-1], text + text, TOO_LONG, text[:-1] + " " * 10**7 + "}"]
    wrong = [{"header": h} for h in (10**17, 2**62, -1, 1.0, True, "0", content["header"] + 1)]
    wrong += [
        {"plan": "0" * 40},
        {"extra": [1]},
        *({"kind": kind} for kind in ("Done", "Kept", "Masked", "a" * 10**6, 5)),
    ]
    for name, numbers in content.items():
        if isinstance(numbers, list):
            n = len(numbers)
            wrong += [{name: x} for x in (numbers[:-1], [*numbers, numbers[0]], numbers * 50, [numbers], [], 5, None)]
            wrong += [{name: [x] * n} for x in (-1, 2**70, 1e308, math.nan, "1", None, 10**400)]
            texts.append(json.dumps({**content, name: "@"}).replace('"@"', "[" * 5000 + "]" * 5000))
    return texts + [json.dumps({**content, **change}) for change in wrong]


@pytest.mark.parametrize("settings", [{}, {"secure": True}, {"secure": True, "quorum": 3}])
def test_hostile_texts_of_one_client_cost_the_others_nothing(settings, tmp_path, caplog):
    """They come before or after what the client had to send, of each kind; all is refused, and all ends as without."""
    if settings:
        pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
        pytest.importorskip("Crypto", reason="pfpne[secure] is not installed")
    ends = []
    for when in (None, "before", "after"):
        folder, came, kinds = tmp_path / str(when), [], set()
        caplog.clear()
        server = LiveServer("pf-pne", task(4, 40), folder / "server", deadline=600, **settings)
        clients = [
            LiveClient("pf-pne", task(4, 40), m, lambda x, m=m: objective(m, x), folder / str(m), **settings)
            for m in range(4)
        ]

        def send(m, text, clients=clients, came=came, kinds=kinds, when=when):
            answer = clients[m].answer(text)
            kind, others = json.loads(answer)["kind"], []
            if when and m == 1 and kind not in kinds:
                kinds.add(kind)
                others = [*((m, x) for x in hostile_texts(answer)), *((x, answer) for x in (-1, 4, "x", 1.5, None))]
            came.extend([*others, (m, answer)] if when == "before" else [(m, answer), *others])

        drive(server, send, lambda came=came: [came.pop(0)] if came else [])
        best = [client.client.best().tolist() for client in clients]
        ends.append(([client.t for client in clients], best, server.disclosure().to_csv()))
        assert ends[0] == ends[-1] and ends[0][0] == [40] * 4
        if when:
            refused = [record.getMessage() for record in caplog.records if ": refused: " in record.getMessage()]
            assert {"Done"} < kinds and len(refused) > 50 and max(map(len, refused)) < 700
