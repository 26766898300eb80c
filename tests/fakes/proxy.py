"""A connection that breaks: a TCP relay on this machine that cuts after so many bytes in one direction."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Relays to `port` of this machine until `up` bytes have gone there, or `down` bytes have come back.

    Then every connection is cut, with a reset or (`gently`) with an end, and no other is served.
    """

    def __init__(self, port: int, *, up: int | None = None, down: int | None = None, gently: bool = False) -> None:
        self.target, self.gently = port, gently
        self.limits = {"up": up, "down": down}
        self.passed = {"up": 0, "down": 0}
        self.cut = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self._sockets += [client, server]
                for way, source, sink in (("up", client, server), ("down", server, client)):
                    threading.Thread(target=self._relay, args=(way, source, sink), daemon=True).start()

    def _relay(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    limit = self.limits[way]
                    rest = len(data) if limit is None else max(0, limit - self.passed[way])
                    self.passed[way] += len(data[:rest])
                sink.sendall(data[:rest])
                if rest < len(data):
                    self.cut = True
                    self.close(reset=not self.gently)
                    return
            sink.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool = False) -> None:
        """End everything."""
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                if reset:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # wakes the thread that reads: until then nothing is closed
                each.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            each.close()
