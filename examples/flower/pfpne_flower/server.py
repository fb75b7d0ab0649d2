"""The ServerApp: it passes the texts on, and knows which SuperNode is which client."""

import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from pfpne.live import LiveServer, drive
from pfpne_flower.problem import plan, settings

app = ServerApp()


class Mail:
    """What `drive` sends and receives, over Flower's grid. A SuperNode that is new, or started again, is asked first.

    nodes: client -> its SuperNode. open: message -> (SuperNode, its client, None if not known yet).
    """

    def __init__(self, grid: Grid, pause: float = 0.5):
        self.grid, self.pause = grid, pause
        self.nodes, self.open, self.greeted, self.waiting = {}, {}, set(), {}

    def send(self, m: int, text: str) -> None:
        """Ask client m, as soon as it is there."""
        if m in self.nodes:
            self._push(self.nodes[m], m, text)
        else:
            self.waiting[m] = text

    def _push(self, node: int, m: int | None, text: str) -> None:
        print(f"to client {'?' if m is None else m}: {text or 'go on'}", flush=True)
        content = RecordDict({"mail": ConfigRecord({"text": text})})
        (message_id,) = self.grid.push_messages([Message(content, dst_node_id=node, message_type="query")])
        self.open[message_id] = node, m

    def receive(self):
        """(client, text) of the answers that have come; text None for a client whose SuperNode is gone or failed."""
        time.sleep(self.pause)
        there = set(self.grid.get_node_ids())
        for node in there - self.greeted:
            self._push(node, None, "")
        self.greeted = there
        self.nodes = {m: node for m, node in self.nodes.items() if node in there}
        gone = [message_id for message_id, (node, _) in self.open.items() if node not in there]
        came = [(m, None) for m in (self.open.pop(message_id)[1] for message_id in gone) if m is not None]
        for reply in self.grid.pull_messages(list(self.open)):
            node, m = self.open.pop(reply.metadata.reply_to_message_id)
            if reply.has_error():
                print(f"client {'?' if m is None else m} failed: {reply.error.reason}", flush=True)
                if m is None:
                    self.greeted.discard(node)  # it is asked again
                else:
                    came.append((m, None))
            else:
                m, text = reply.content["mail"]["client"], reply.content["mail"]["text"]
                print(f"from client {m}: {text or 'done'}", flush=True)
                self.nodes[m] = node
                self.waiting.pop(m, None)
                came.append((m, text))
        for m in self.waiting.keys() & self.nodes.keys():
            self._push(self.nodes[m], m, self.waiting.pop(m))
        return came


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve to the end, or until the deadline with less than a quorum; run again, it goes on from there."""
    config = context.run_config
    limits = {"deadline": config["deadline"], "last_deadline": config["last-deadline"], "quorum": config["quorum"]}
    folder = Path(config["folder"]).expanduser() / "server"
    server, mail = LiveServer(*plan(config), folder, **limits, **settings(config)), Mail(grid)
    drive(server, mail.send, mail.receive)
    print("all clients are done", flush=True)
