"""Live use: clients in places of their own, that are slow, go, come back, start again and repeat themselves.

`LiveClient` and `LiveServer` wrap the objects of a federation (see pfpne.federation) for that. They know no network:
texts come in and go out, each the JSON of a message with the digest of the plan, or "" for the server's request to go
on; a client with nothing to say says `Done`. `drive` passes them on, over whatever carries texts (examples/flower:
Flower). Each keeps what it knows in a folder, and goes on from there however its process ended.

What holds when something is missing:

- A phase ends when all clients have answered. At the deadline it ends with those that have, if they are a quorum: the
  mean of a node is the mean over those, and T_{h,i}, of which its half-width is made, their evaluations alone. With
  fewer, a TimeoutError names who is missing. pf-pne, fed-pne and fed1-ucb bear it; the others need every client.
- A client that comes back tells where it stopped, is sent what it has missed, phase by phase, and makes the same
  evaluations as the others; what is late counts for itself alone.
- A message twice, or late, is answered again as it was the first time, and changes nothing.
- An evaluation that fails, or gives no finite number, is missing. A missing reward counts as the mean of all others
  that the client has of the same point, and as the declared `missing` if there are none; half-widths are not widened.
"""

from pfpne.live.client import LiveClient
from pfpne.live.plan import Done
from pfpne.live.server import LiveServer, drive

__all__ = ["Done", "LiveClient", "LiveServer", "drive"]
