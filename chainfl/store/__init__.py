"""Content-addressed blobs: in a directory, or behind the RPC of an IPFS daemon."""

from chainfl.store.address import open_store
from chainfl.store.directory import DirectoryStore
from chainfl.store.ipfs import IpfsSettings, IpfsStore

__all__ = ["DirectoryStore", "IpfsSettings", "IpfsStore", "open_store"]
