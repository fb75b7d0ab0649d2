"""Servers that conclude a phase with the clients that have answered, where some are missing."""

import numpy as np

from pfpne.algorithms.fed1_ucb import Fed1UCBServer
from pfpne.algorithms.pf_pne import FedPNEServer, PhasedServer
from pfpne.messages import Message


class _SomeOfThem:
    """Of a server that concludes phases: one may be concluded with the means of some clients alone."""

    def samples(self, h: int) -> int:
        """T_{h,i}: what those who answered have drawn of a node."""
        return super().samples(h) // self.task.n_clients * self.present

    def _exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        self.present = len(messages)
        return dict.fromkeys(messages, self.conclude(np.stack([message.means for message in messages.values()])))


class SomePFPNEServer(_SomeOfThem, PhasedServer):
    """Algorithm 1, with the clients that answered."""


class SomeFedPNEServer(_SomeOfThem, FedPNEServer):
    """Fed-PNE's, with the clients that answered."""


class SomeFed1UCBServer(_SomeOfThem, Fed1UCBServer):
    """Fed1-UCB's, with the clients that answered: means over those, and widths for as many."""


BEARS_MISSING = {PhasedServer: SomePFPNEServer, FedPNEServer: SomeFedPNEServer, Fed1UCBServer: SomeFed1UCBServer}
