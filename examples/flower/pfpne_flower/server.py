"""The ServerApp: it passes the texts on, and knows which SuperNode is which client.

A SuperNode is bound to a client: by the table `nodes` of the run's configuration, or by its first answer for as long as
it is there. What says that it is another client is refused, as every reply is that is not as it has to be.
"""

import json
import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from pfpne.live import LiveServer, drive
from pfpne_flower.problem import masks, plan, settings

app = ServerApp()
LONGEST_SHOWN = 10_000  # characters of a text in the log


class Mail:
    """What `drive` sends and receives, over Flower's grid. A SuperNode that is new, or started again, is asked first.

    nodes: client -> its SuperNode. open: message -> (SuperNode, its client, None if not known yet). bound: SuperNode ->
    its client, as the configuration has it; the others, if it names any, are not asked. refused: SuperNodes whose first
    answer was refused, which are asked again once another SuperNode is gone.
    """

    def __init__(self, grid: Grid, n_clients: int, bound: dict[int, int] | None = None, pause: float = 0.5):
        self.grid, self.n_clients, self.bound, self.pause = grid, n_clients, bound or {}, pause
        self.nodes, self.open, self.greeted, self.waiting, self.refused = {}, {}, set(), {}, set()

    def send(self, m: int, text: str) -> None:
        """Ask client m, as soon as it is there."""
        if m in self.nodes:
            self._push(self.nodes[m], m, text)
        else:
            self.waiting[m] = text

    def _push(self, node: int, m: int | None, text: str) -> None:
        print(f"to client {'?' if m is None else m} (SuperNode {node}): {text or 'go on'}", flush=True)
        content = RecordDict({"mail": ConfigRecord({"text": text})})
        (message_id,) = self.grid.push_messages([Message(content, dst_node_id=node, message_type="query")])
        self.open[message_id] = node, m

    def receive(self):
        """(client, text) of the answers that have come; text None for a client whose SuperNode is gone or failed."""
        time.sleep(self.pause)
        there = set(self.grid.get_node_ids())
        again = self.refused & there if self.greeted - there else set()  # it may be the one that is gone, started again
        self.refused -= again
        for node in (there - self.greeted) | again:
            if not self.bound or node in self.bound:
                self._push(node, None, "")
        self.greeted = there
        self.nodes = {m: node for m, node in self.nodes.items() if node in there}
        gone = [message_id for message_id, (node, _) in self.open.items() if node not in there]
        came = [(m, None) for m in (self.open.pop(message_id)[1] for message_id in gone) if m is not None]
        for reply in self.grid.pull_messages(list(self.open)):
            node, m = self.open.pop(reply.metadata.reply_to_message_id, (None, None))
            if node is None:
                print("a reply to nothing that was asked: ignored", flush=True)
                continue
            try:
                m, text = self._read(reply, node, m)
            except Exception as error:  # whatever a reply may hold
                print(
                    f"client {'?' if m is None else m} (SuperNode {node}): refused: {ascii(str(error))[1:-1][:300]}",
                    flush=True,
                )
                if m is not None:
                    came.append((m, None))
                elif reply.has_error():
                    self.greeted.discard(node)  # it failed, and is asked again
                else:
                    self.refused.add(node)
                continue
            print(f"from client {m} (SuperNode {node}): {ascii(text[:LONGEST_SHOWN])[1:-1]}", flush=True)
            self.nodes[m] = node
            self.waiting.pop(m, None)
            came.append((m, text))
        for m in self.waiting.keys() & self.nodes.keys():
            self._push(self.nodes[m], m, self.waiting.pop(m))
        return came

    def _read(self, reply: Message, node: int, asked: int | None) -> tuple[int, str]:
        """The client and the text of a reply; ValueError if it failed, is malformed, or is another client's."""
        if reply.has_error():
            raise ValueError(f"it failed: {reply.error.reason}")
        m, text = reply.content["mail"]["client"], reply.content["mail"]["text"]
        if type(m) is not int or not 0 <= m < self.n_clients or type(text) is not str:
            raise ValueError("a reply has the number of a client and a text")
        if asked is not None and m != asked:
            raise ValueError(f"it is client {asked}, and says that it is {m}")
        if self.bound and self.bound.get(node) != m:
            raise ValueError(f"it says that it is client {m}, and the configuration has {self.bound.get(node)}")
        if self.nodes.get(m, node) != node:
            raise ValueError(f"it says that it is client {m}, which is SuperNode {self.nodes[m]}")
        return m, text


def bound_nodes(table: str, n_clients: int) -> dict[int, int]:
    """SuperNode -> client, of a table as in the configuration: JSON, {"client": SuperNode}; empty for none."""
    table = str(table)
    try:
        nodes = {int(m): node for m, node in json.loads(table or "{}").items()}
    except (ValueError, AttributeError):
        raise ValueError(f'nodes must be a text such as {{"0": 111, "1": 222}}; got {table[:200]}.') from None
    if any(type(node) is not int for node in nodes.values()):
        raise ValueError(f"nodes must name SuperNodes by their numbers; got {table[:200]}.")
    if nodes and (sorted(nodes) != [*range(n_clients)] or len(set(nodes.values())) < n_clients):
        raise ValueError(f"nodes must name one SuperNode for each client, 0 to {n_clients - 1}; got {table[:200]}.")
    return {node: m for m, node in nodes.items()}


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve to the end, or until the deadline with less than a quorum; run again, it goes on from there."""
    config = context.run_config
    limits = {"deadline": config["deadline"], "last_deadline": config["last-deadline"], **masks(config)}
    folder = Path(config["folder"]).expanduser() / "server"
    bound = bound_nodes(config["nodes"], config["n-clients"])
    server = LiveServer(*plan(config), folder, **limits, **settings(config))
    mail = Mail(grid, config["n-clients"], bound)
    drive(server, mail.send, mail.receive)
    print("all clients are done", flush=True)
