"""The Flower app of examples/flower: what passes over its grid, and that it is the federation that it says it is."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pfpne
from pfpne.algorithms import ALGORITHMS, make_federation
from pfpne.journal import Journal
from pfpne.live import Done
from pfpne.live.plan import GoOn
from pfpne.messages import Message
from pfpne.paths import INPUT_ROOT as CHECKOUT

flwr = pytest.importorskip("flwr", reason="pfpne[live] is not installed")
sys.path.insert(0, str(CHECKOUT / "examples" / "flower"))

CONFIG = {"algorithm": "pf-pne", "n-clients": 3, "horizon": 60, "seconds": 0.0}
LIMITS = {"quorum": 3, "deadline": 600.0, "last-deadline": 600.0}


class FakeGrid:
    """Flower's grid, with the ClientApps called in place. traffic: (way, content) of every message.

    dies: the request at which node 11, client 1, is lost; it comes back as node 21.
    """

    def __init__(self, config, dies=0):
        from flwr.supercore.task_identity import TaskIdentity
        from pfpne_flower.client import app

        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # which Flower sets in a ServerApp
        self.app, self.config, self.dies = app, config, dies
        self.nodes, self.replies, self.traffic = {10: 0, 11: 1, 12: 2}, {}, []

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            node = message.metadata.dst_node_id
            message_id = f"message {len(self.traffic)}"
            self.traffic.append(("down", message.content))
            if node == 11 and len(self.traffic) >= self.dies > 0:
                self.nodes.pop(11, None)
                self.nodes[21] = 1
            else:
                message.metadata.__dict__["_message_id"] = message_id
                here = {"partition-id": self.nodes[node]}
                context = flwr.app.Context(1, node, here, flwr.app.RecordDict(), self.config)
                reply = self.app(message, context)
                self.traffic.append(("up", reply.content))
                self.replies[message_id] = reply
            yield message_id

    def pull_messages(self, message_ids):
        return [self.replies.pop(message_id) for message_id in message_ids if message_id in self.replies]


@pytest.mark.parametrize("dies", [0, 9])
def test_only_declared_messages_pass_over_the_grid(dies, tmp_path):
    """And the clients end as those of a federation in one process do, also when one is lost on the way."""
    from pfpne_flower.problem import plan, settings
    from pfpne_flower.server import Mail

    from pfpne.live import LiveServer, drive

    config = {**CONFIG, **LIMITS, "folder": str(tmp_path)}
    server = LiveServer(*plan(config), tmp_path / "server", deadline=600, **settings(config))
    grid = FakeGrid(config, dies)
    mail = Mail(grid, 3, pause=0)
    drive(server, mail.send, mail.receive)
    row, passed = ALGORITHMS["pf-pne"], {"up": set(), "down": set()}
    for way, content in grid.traffic:
        assert list(content) == ["mail"]
        assert set(content["mail"]) == ({"text"} if way == "down" else {"client", "text"})
        if text := content["mail"]["text"]:
            message = Message.from_json(text)  # an answer to a first request does not know the run yet
            assert text in (message.to_json(server.run_tag), message.to_json(server.run_tag[:8]))
            passed[way].add(type(Message.from_json(text)))
    assert passed == {"up": {*row.up_kinds, Done}, "down": {*row.down_kinds, GoOn}} and set(grid.nodes) == {
        10,
        12,
        21 if dies else 11,
    }
    assert_as_in_one_process(config, {m: tmp_path / f"client-{m}" for m in range(3)})


def test_with_masks_no_mean_passes_over_the_grid(tmp_path):
    pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    from pfpne_flower.problem import masks, plan, settings
    from pfpne_flower.server import Mail

    from pfpne.live import LiveServer, drive

    config = {**CONFIG, **LIMITS, "folder": str(tmp_path), "horizon": 30, "secure": True}
    server = LiveServer(*plan(config), tmp_path / "server", deadline=600, **masks(config), **settings(config))
    grid = FakeGrid(config)
    mail = Mail(grid, 3, pause=0)
    drive(server, mail.send, mail.receive)
    said = [content["mail"]["text"] for way, content in grid.traffic if way == "up"]
    assert {type(Message.from_json(text)).__name__ for text in said} == {"PublicKey", "Masked", "Done"}


class Reply:
    """A reply that a site made up: anything may be in it."""

    def __init__(self, to, content, error=None):
        self.metadata, self.content, self.error = SimpleNamespace(reply_to_message_id=to), content, error

    def has_error(self):
        return self.error is not None


class LyingGrid(FakeGrid):
    """One whose node 12, client 2, says content(what it would say) instead, `times` times."""

    def __init__(self, config, content, times):
        super().__init__(config)
        self.content, self.times = content, times
        self.nodes = dict(sorted(self.nodes.items(), reverse=True))  # it is the first to answer

    def pull_messages(self, message_ids):
        replies = super().pull_messages(message_ids)
        for i, reply in enumerate(replies):
            if reply.content["mail"]["client"] == 2 and self.times > 0:
                self.times -= 1
                replies[i] = Reply(reply.metadata.reply_to_message_id, self.content(reply.content["mail"]))
        return replies


@pytest.mark.parametrize(
    "content",
    [
        lambda mail: None,
        lambda mail: {},
        lambda mail: {"mail": 3},
        lambda mail: {"mail": {"client": 2}},
        lambda mail: {"mail": {"text": mail["text"]}},
        lambda mail: {"mail": {"client": [2], "text": mail["text"]}},
        lambda mail: {"mail": {"client": "x", "text": mail["text"]}},
        lambda mail: {"mail": {"client": 2.0, "text": mail["text"]}},
        lambda mail: {"mail": {"client": True, "text": mail["text"]}},
        lambda mail: {"mail": {"client": -1, "text": mail["text"]}},
        lambda mail: {"mail": {"client": 99, "text": mail["text"]}},
        lambda mail: {"mail": {"client": 2, "text": 0}},
        lambda mail: {"mail": {"client": 2, "text": None}},
        lambda mail: {"mail": {"client": 2, "text": ""}},
        lambda mail: {"mail": {"client": 2, "text": '{"kind":"NodeMeans","header":0,"means":["' + "a" * 9**5 + '"]}'}},
        lambda mail: {"mail": {"client": 1, "text": ""}},
        lambda mail: {"mail": {"client": 2, "text": "\ud800\nall clients are done"}},
    ],
    ids=range(17),
)
def test_a_malformed_reply_is_refused_and_ends_nothing(content, tmp_path, monkeypatch):
    """The client is asked again, and the federation ends as if nothing had been."""
    from pfpne_flower.problem import plan, settings
    from pfpne_flower.server import Mail

    from pfpne.live import LiveServer, drive

    config = {**CONFIG, **LIMITS, "folder": str(tmp_path), "horizon": 12}
    grid, asked = LyingGrid(config, lambda mail: None, 0), []
    grid.content = lambda mail: asked.append(1) or content(mail)
    mail, server = (
        Mail(grid, 3, pause=0),
        LiveServer(*plan(config), tmp_path / "server", deadline=600, **settings(config)),
    )

    def receive():
        came = mail.receive()
        if 2 in mail.nodes and not asked:
            grid.times = 2
        return came

    drive(server, mail.send, receive)
    assert len(asked) == 2
    assert_as_in_one_process(config, {m: tmp_path / f"client-{m}" for m in range(3)})


@pytest.mark.parametrize("bound", [{}, {12: 2, 11: 1, 10: 0}])
def test_a_supernode_is_the_client_that_it_is_bound_to(bound, tmp_path, capsys):
    """Another that says that it is the same client is refused, and its text not passed on."""
    from pfpne_flower.server import Mail

    config = {**CONFIG, **LIMITS, "folder": str(tmp_path), "horizon": 12}
    grid = LyingGrid(config, lambda mail: {"mail": {"client": 1, "text": "a lie"}}, 0 if bound == {} else 1)
    if bound == {}:
        grid.nodes = {11: 1, 10: 0, 12: 2}
        grid.times = 1
    mail = Mail(grid, 3, bound, pause=0)
    mail.greeted = {10, 12}  # 11 first
    came = [*mail.receive()]
    mail.greeted = {10, 11}
    came += mail.receive()
    assert [m for m, text in came if text] == [1] and not any(text == "a lie" for _, text in came)
    assert mail.nodes == {1: 11} and "refused: it says that it is client 1" in capsys.readouterr().out


def test_the_table_of_nodes_names_each_client_once():
    from pfpne_flower.server import bound_nodes

    assert bound_nodes("", 2) == {} and bound_nodes('{"0": 7, "1": 9}', 2) == {7: 0, 9: 1}
    more = ("x", "[7, 9]", "7", 7, "null", '{"0": "y", "1": 9}', '{"0": 7.5, "1": 9}', '{"0": [7], "1": 9}')
    for wrong in ('{"0": 7}', '{"0": 7, "1": 7}', '{"0": 7, "2": 9}', *more):
        with pytest.raises(ValueError, match="nodes must"):
            bound_nodes(wrong, 2)


def assert_as_in_one_process(config, folders):
    """Each client made its evaluations once each, and would deploy what it would in a federation in one process."""
    from pfpne_flower.problem import objective, plan, settings

    run, config = make_federation(*plan(config), **settings(config)), {**config, "seconds": 0.0}
    while run.running:
        for m, batch in run.ask():
            run.tell(m, np.repeat([objective(m, config)(x) for x in batch.points], batch.counts))
    for m, client in enumerate(run.clients):
        mine = pfpne.load(folders[m] / "state")["client"]
        assert mine.t == client.t == len(Journal(folders[m] / "evaluations.jsonl").read())
        assert np.array_equal(mine.best(), client.best())


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, seconds=900):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.5)


class Deployment:
    """A SuperLink and three SuperNodes, each in a process group of its own that can be killed."""

    def __init__(self, folder: Path):
        self.folder, self.link, self.processes = folder, free_port(), {}
        off = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "FLWR_HOME": str(folder / "flwr"), "PYTHONPATH": str(CHECKOUT)}
        self.environment = {**os.environ, **off, **own}
        (folder / "flwr").mkdir()
        address = f'[superlink.here]\naddress = "127.0.0.1:{self.link}"\ninsecure = true\n'
        (folder / "flwr" / "config.toml").write_text(address)

    def start(self, name: str, *command):
        with (self.folder / f"{name}.log").open("a") as log:
            where = {"cwd": self.folder, "env": self.environment, "stdout": log, "stderr": log}
            self.processes[name] = subprocess.Popen(command, start_new_session=True, **where)

    def start_link(self):
        at = ("--host", "127.0.0.1", "--port", str(self.link))
        self.start("superlink", "flower-superlink", "--insecure", *at, "--disable-runtime-dependency-installation")
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", self.link)) == 0)

    def start_node(self, m: int):
        config = f'partition-id={m} folder="{self.folder}"'
        at = ("--superlink", f"127.0.0.1:{self.link}", "--host", "127.0.0.1", "--port", str(free_port()))
        self.start(f"supernode-{m}", "flower-supernode", "--insecure", *at, "--node-config", config)

    def run(self, *arguments) -> str:
        where = {"cwd": self.folder, "env": self.environment, "text": True, "capture_output": True}
        done = subprocess.run(["flwr", *arguments], check=True, **where)
        return done.stdout

    def kill(self, name: str):
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes.pop(name).wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.kill(name)


@pytest.mark.slow
def test_a_real_deployment_whose_client_is_killed_and_started_again_loses_nothing(tmp_path):
    """Nor does the traffic, as Flower's own log of the server has it, hold anything but declared messages."""
    config = {**CONFIG, **LIMITS, "folder": str(tmp_path), "horizon": 40, "seconds": 0.5}
    with Deployment(tmp_path) as flower:
        flower.start_link()
        for m in range(3):
            flower.start_node(m)
        given = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        app = str(CHECKOUT / "examples" / "flower")
        started = flower.run("run", app, "here", "--run-config", given, "--format", "json")
        run_id = str(json.loads(started)["run-id"])
        journal = Journal(tmp_path / "client-1" / "evaluations.jsonl")
        wait_for(lambda: len(journal.read()) >= 9)  # it is among the eight of its fourth batch
        flower.kill("supernode-1")
        before = len(journal.read())
        assert before < 40
        flower.start_node(1)
        wait_for(lambda: "all clients are done" in flower.run("log", run_id, "here", "--show"))
        log = flower.run("log", run_id, "here", "--show").splitlines()
    assert_as_in_one_process(config, {m: tmp_path / f"client-{m}" for m in range(3)})
    row, passed = ALGORITHMS["pf-pne"], {"to": set(), "from": set()}
    for line in log:
        if line.startswith(("to client", "from client")):
            text = line.partition(": ")[2]
            if text != "go on":
                passed[line.split()[0]].add(type(Message.from_json(text)))
    assert passed == {"from": {*row.up_kinds, Done}, "to": {*row.down_kinds, GoOn}}


def commands_of_the_page() -> list[str]:
    """The commands of docs/trust.md for Flower, block by block."""
    page = (CHECKOUT / "docs" / "trust.md").read_text(encoding="utf-8")
    section = page.partition("\n## Flower\n")[2].partition("\n## ")[0]
    return [block.replace("\\\n", " ") for block in re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)]


@pytest.mark.slow
def test_the_commands_of_the_page_on_trust_serve_whom_they_name_and_no_stranger(tmp_path):
    certificates, keys, server, node = commands_of_the_page()
    config = {**CONFIG, **LIMITS, "folder": str(tmp_path), "horizon": 12}
    with Deployment(tmp_path) as flower:

        def here(commands: str, m="") -> list[str]:
            changes = {"server.example": "localhost", "0.0.0.0": "127.0.0.1", "9100": str(flower.link)}
            changes |= {"site-key": f"site-key-{m}", "partition-id=0": f"partition-id={m}"}
            changes |= {" mine": " here", "~/pfpne-site": str(tmp_path)}
            for old, new in changes.items():
                commands = commands.replace(old, new)
            return commands.strip().splitlines()

        def start(name: str, command: str, *more):
            flower.start(name, *shlex.split(command), *more)

        for line in [*here(certificates), *(line for m in (0, 1, 2, 9) for line in here(keys, m))]:
            subprocess.run(line, shell=True, check=True, cwd=tmp_path, env=flower.environment, capture_output=True)
        address = f'address = "localhost:{flower.link}"\nroot-certificates = "{tmp_path}/ca.pem"\n'
        (tmp_path / "flwr" / "config.toml").write_text(f"[superlink.here]\n{address}")
        start("superlink", here(server)[0])
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", flower.link)) == 0)
        for m in range(3):
            flower.run(*shlex.split(here(server, m)[1])[1:])
        for m in (9, 0, 1, 2):  # the first is not registered
            start(f"supernode-{m}", here(node, m)[0], "--host", "127.0.0.1", "--port", str(free_port()))
        given = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        app = str(CHECKOUT / "examples" / "flower")
        run_id = str(json.loads(flower.run("run", app, "here", "--run-config", given, "--format", "json"))["run-id"])
        wait_for(lambda: "all clients are done" in flower.run("log", run_id, "here", "--show"))
    assert "Failed to activate SuperNode" in (tmp_path / "supernode-9.log").read_text()
    assert not (tmp_path / "client-9").exists()
    assert_as_in_one_process(config, {m: tmp_path / f"client-{m}" for m in range(3)})
