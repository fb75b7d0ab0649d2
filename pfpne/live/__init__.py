"""Live use: clients on separate machines, which may be slow, go away, come back, restart and repeat messages.

`LiveClient` and `LiveServer` wrap the objects of a federation (see pfpne.federation) for this. They know no network:
they take and return texts. A text is the JSON of a message with the digest of the plan, or "" for the server's request
to continue; a client with nothing to do says `Done`. `drive` passes the texts on, over any transport (examples/flower:
Flower). Each side keeps its state in a folder, and continues from there however its process ended.

If something is missing:

- A phase ends when all clients have answered. At the deadline it ends with the clients that have answered, if they are
  a quorum: the mean of a node is the mean over these clients, and T_{h,i}, from which the half-width follows, counts
  only their evaluations. With fewer clients, a TimeoutError names the missing ones. pf-pne, fed-pne and fed1-ucb allow
  a quorum; the other algorithms need every client.
- A client that comes back tells where it stopped. It is sent the missed answers, phase by phase, and makes the same
  evaluations as the others; its late evaluations count only for the client itself.
- A repeated or late message is answered as it was the first time, and changes nothing.
- An evaluation that fails, or gives no finite number, is missing. A missing reward counts as the mean of the client's
  other rewards at the same point, or as the declared `missing` if there are none; half-widths are not widened.
"""

from pfpne.live.client import LiveClient
from pfpne.live.plan import Done
from pfpne.live.server import LiveServer, drive

__all__ = ["Done", "LiveClient", "LiveServer", "drive"]
