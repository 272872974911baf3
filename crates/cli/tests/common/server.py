"""The least of an OpenAI server: `server.py PORT TOKENS [COMMAND…]` runs the command for every request, then answers.

It starts a child that leaves its process group, and writes its number to `child.pid`; and one that forks twice, leaves the
session and clears its environment, as daemons do: `daemon.pid`.
"""

import http.server
import json
import subprocess
import sys

port, tokens, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
child = subprocess.Popen(["sleep", "12345"], start_new_session=True)
with open("child.pid", "w") as file:
    file.write(str(child.pid))
subprocess.run(["sh", "-c", "env -i setsid sleep 12346 & echo $! > daemon.pid"], check=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            self.say(b'{"data":[{"id":"tiny"}]}')
        elif self.path == "/health":
            self.say(b"")
        else:
            self.send_error(404)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if command:
            subprocess.run(command, check=True)
        usage = {"prompt_tokens": 4, "completion_tokens": tokens}
        event = json.dumps({"choices": [{"text": "a", "finish_reason": "length"}], "usage": usage})
        self.say(f"data: {event}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
