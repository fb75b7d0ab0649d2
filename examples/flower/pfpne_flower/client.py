"""The ClientApp of a site: it takes a text, works, and answers with one."""

import logging
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from pfpne.live import LiveClient
from pfpne_flower.problem import masks, objective, plan, settings

app = ClientApp()
log = logging.getLogger(__name__)


@app.query()
def query(message: Message, context: Context) -> Message:
    """One request. The site's number is the partition-id of its SuperNode's --node-config, its folder may be there.

    Why it failed is told at the site alone: Flower sends an error's text to the server, which may hold rewards or data.
    """
    config, m = context.run_config, int(context.node_config["partition-id"])
    folder = Path(context.node_config.get("folder", config["folder"])).expanduser() / f"client-{m}"
    try:
        client = LiveClient(*plan(config), m, objective(m, config), folder, **masks(config), **settings(config))
        text = client.answer(message.content["mail"]["text"])
    except Exception:  # whatever an objective may raise
        log.exception("client %d failed", m)
        raise RuntimeError("a client failed; the log at its site says why.") from None
    print(f"client {m}: {client.t} evaluations made, best so far {client.best().tolist()}", flush=True)
    return Message(RecordDict({"mail": ConfigRecord({"client": m, "text": text})}), reply_to=message)
