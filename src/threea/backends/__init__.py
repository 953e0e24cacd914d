"""How a sum over rows is computed. Importable by the door only.

A query needs one real verb, `sum`; a release also bounds a person's rows and counts unlisted values. Engines on a
cluster do all of that and hand over no row; those in this process can also hand over their rows, chunk by chunk.
"""

from threea.backends.base import Backend, Engine, RowBackend
from threea.backends.memory import MemoryBackend
from threea.backends.source import open_backend, open_engine

__all__ = ["Backend", "Engine", "MemoryBackend", "RowBackend", "open_backend", "open_engine"]
