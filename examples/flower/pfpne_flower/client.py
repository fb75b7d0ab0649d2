"""The ClientApp of a site: it takes a text, works, and answers with one."""

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from pfpne.live import LiveClient
from pfpne_flower.problem import masks, objective, plan, settings

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """One request. The site's number is the partition-id of its SuperNode's --node-config, its folder may be there."""
    config, m = context.run_config, int(context.node_config["partition-id"])
    folder = Path(context.node_config.get("folder", config["folder"])).expanduser() / f"client-{m}"
    client = LiveClient(*plan(config), m, objective(m, config), folder, **masks(config), **settings(config))
    text = client.answer(message.content["mail"]["text"])
    print(f"client {m}: {client.t} evaluations made, best so far {client.best().tolist()}", flush=True)
    return Message(RecordDict({"mail": ConfigRecord({"client": m, "text": text})}), reply_to=message)
