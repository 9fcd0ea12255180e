"""A publisher on this machine: a local HTTP server that ends with the test."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Publisher(BaseHTTPRequestHandler):
    """Serves one content with ranges; the server's `cut` list says after how many bytes each answer breaks off."""

    def do_GET(self):
        self.server.asked.append(self.headers.get("Range"))
        start = int(self.headers["Range"][6:-1]) if "Range" in self.headers and self.server.ranges else 0
        if self.server.status:
            return self.send_error(self.server.status)
        if start >= len(self.server.content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.server.content) - start))
        self.end_headers()
        cut = self.server.cut.pop(0) if self.server.cut else len(self.server.content)
        self.wfile.write(self.server.content[start : start + cut])

    def log_message(self, *arguments):
        pass


@contextmanager
def publisher(content, cut=(), ranges=True, status=None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    server.content, server.cut, server.ranges, server.status, server.asked = content, list(cut), ranges, status, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown(), server.server_close(), thread.join()
