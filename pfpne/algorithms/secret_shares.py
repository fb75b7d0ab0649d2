"""What secure aggregation with drop-out is made of: seeds of masks, shares of them, and sealed envelopes.

The protocol that uses them is in pfpne.algorithms.secure.
"""

import os
import struct

import numpy as np

SEED_BYTES = 16  # of a seed, and of a share of it, as Shamir's sharing wants
ENCRYPTION_BYTES = 28  # that encryption adds: a nonce and a tag


def derive(secret: bytes, salt: bytes, purpose: bytes, header: int, length: int) -> bytes:
    """Return `length` bytes derived from a secret, for one purpose and one exchange."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt=salt, info=b"pfpne " + purpose + struct.pack("<Q", header)).derive(secret)


def agree(key: np.ndarray, keys: np.ndarray, other: int) -> bytes:
    """Return the secret that only the owner of the private key and client `other` can compute."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    other_key = X25519PublicKey.from_public_bytes(keys[other].astype(np.uint8).tobytes())
    return X25519PrivateKey.from_private_bytes(key.tobytes()).exchange(other_key)


def join_keys(keys: np.ndarray, m: int, other: int) -> bytes:
    """Return the public keys of two clients one after the other, in the same order for both."""
    return b"".join(keys[i].astype(np.uint8).tobytes() for i in sorted((m, other)))


def seeds(key: np.ndarray, m: int, keys: np.ndarray, header: int, broadcast_digest: str = "") -> list[bytes]:
    """Return the seeds of client m's masks in an exchange, one for each client; entry m is the seed of its own mask.

    broadcast_digest: the digest of the broadcasts that the client has received, on which all seeds depend.
    """

    def seed(other: int) -> bytes:
        if other == m:
            return derive(key.tobytes(), broadcast_digest.encode(), b"own mask", header, SEED_BYTES)
        salt = join_keys(keys, m, other) + broadcast_digest.encode()
        return derive(agree(key, keys, other), salt, b"pair", header, SEED_BYTES)

    return [seed(other) for other in range(len(keys))]


def random_numbers(key: bytes, n: int, bits: int) -> np.ndarray:
    """Return n numbers (n,), uniform modulo 2^bits, bits <= 62, generated from a key of 32 bytes (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return (np.frombuffer(stream.update(bytes(8 * n)), "<u8") & np.uint64(2**bits - 1)).astype(np.int64)


def mask_from_seed(seed: bytes, n: int, bits: int) -> np.ndarray:
    """Return the mask (n,), modulo 2^bits, bits <= 62."""
    return random_numbers(derive(seed, b"", b"stream", 0, 32), n, bits)


def split_secret(secret: bytes, quorum: int, M: int) -> list[bytes]:
    """Return shares of a secret, one for each client. A quorum of shares recovers it; fewer reveal nothing about it."""
    from Crypto.Protocol.SecretSharing import Shamir  # pyright: ignore[reportMissingImports]  pfpne[secure]

    return [share for _, share in sorted(Shamir.split(quorum, M, secret))]


def join_shares(shares: dict[int, bytes]) -> bytes:
    """Return the secret, from the shares (client -> share) of exactly a quorum of clients."""
    from Crypto.Protocol.SecretSharing import Shamir  # pyright: ignore[reportMissingImports]  pfpne[secure]

    return Shamir.combine([(m + 1, share) for m, share in shares.items()])


def to_words(content: bytes) -> np.ndarray:
    """Return bytes as numbers of 32 bits."""
    return np.frombuffer(content, "<u4").astype(np.int64)


def from_words(words: np.ndarray) -> bytes:
    """Return the bytes that these numbers stand for."""
    return words.astype("<u4").tobytes()


def words_for(M: int) -> int:
    """Return how many numbers the encrypted shares of M seeds take."""
    return (M * SEED_BYTES + ENCRYPTION_BYTES) // 4


class Envelopes:
    """Seals and opens what passes between clients through the server, which cannot read or change it."""

    def __init__(self, key: np.ndarray, m: int, keys: np.ndarray, header: int):
        self.key, self.m, self.keys, self.header = key, m, keys, header

    def _cipher(self, sender: int, receiver: int):
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        other = receiver if sender == self.m else sender
        purpose = b"shares" + struct.pack("<II", sender, receiver)
        secret, salt = agree(self.key, self.keys, other), join_keys(self.keys, self.m, other)
        return ChaCha20Poly1305(derive(secret, salt, purpose, self.header, 32))

    def seal(self, receiver: int, content: bytes) -> np.ndarray:
        """Return the content encrypted for the receiver, as numbers of 32 bits."""
        nonce = os.urandom(12)
        return to_words(nonce + self._cipher(self.m, receiver).encrypt(nonce, content, None))

    def open(self, sender: int, words: np.ndarray) -> bytes:
        """Return what the sender sealed for this client; ValueError if it is anything else."""
        from cryptography.exceptions import InvalidTag

        content = from_words(words)
        try:
            return self._cipher(sender, self.m).decrypt(content[:12], content[12:], None)
        except InvalidTag:
            what = f"the shares of client {sender} are not those that it sent for this exchange"
            raise ValueError(f"{what}: the text is another client's, or was changed on its way.") from None
