"""The Flower app of examples/flower: what passes over its grid, and that it is the federation that it says it is."""

import sys

import numpy as np
import pytest

import pfpne
from pfpne.algorithms import ALGORITHMS, make_federation
from pfpne.federation import Message
from pfpne.paths import ROOT

flwr = pytest.importorskip("flwr", reason="pfpne[live] is not installed")
sys.path.insert(0, str(ROOT / "examples" / "flower"))

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
    from pfpne_flower.problem import SETTINGS, objective, plan
    from pfpne_flower.server import Mail

    from pfpne.live import LiveServer, drive

    config = {**CONFIG, **LIMITS, "folder": str(tmp_path)}
    server, grid = LiveServer(*plan(config), tmp_path / "server", deadline=600, **SETTINGS), FakeGrid(config, dies)
    mail = Mail(grid, pause=0)
    drive(server, mail.send, mail.receive)
    row, passed = ALGORITHMS["pf-pne"], {"up": set(), "down": set()}
    for way, content in grid.traffic:
        assert list(content) == ["mail"]
        assert set(content["mail"]) == ({"text"} if way == "down" else {"client", "text"})
        if text := content["mail"]["text"]:
            assert Message.from_json(text).to_json() == text
            passed[way].add(type(Message.from_json(text)))
    assert passed == {"up": set(row.up), "down": set(row.down)} and set(grid.nodes) == {10, 12, 21 if dies else 11}
    run = make_federation(*plan(config), **SETTINGS)
    while run.running:
        for m, batch in run.ask():
            run.tell(m, np.repeat([objective(m, config)(x) for x in batch.points], batch.counts))
    for m, client in enumerate(run.clients):
        mine = pfpne.load(tmp_path / f"client-{m}" / "state")["client"]
        assert mine.t == 60 and np.array_equal(mine.best(), client.best())
