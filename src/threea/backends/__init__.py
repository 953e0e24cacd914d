"""How a sum over rows is computed. Importable by the door only.

An engine needs one real verb, `sum`. Engines that can also hand over their rows, chunk by chunk, offer the rest:
bounding a person's rows, counting unlisted values, exposing the table.
"""

from threea.backends.base import Backend, RowBackend
from threea.backends.memory import MemoryBackend
from threea.backends.source import open_backend

__all__ = ["Backend", "MemoryBackend", "RowBackend", "open_backend"]
