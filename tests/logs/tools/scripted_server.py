"""A chat server on this machine that says four lines in turn; prints its port. Standard library only."""

import itertools
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

REPLIES = itertools.cycle(["5", "It is 3.", "41", "42"])
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = next(REPLIES)
        if asked.get("stream"):
            self.send("text/event-stream", self.stream(text))
            return
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "reply", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
        self.send("application/json", json.dumps({**reply, "usage": USAGE}))

    def stream(self, text: str) -> str:
        chunk = {"id": "reply", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
        said = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
        ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
        parts = [{**chunk, "choices": [said]}, {**chunk, "choices": [ended]}, {**chunk, "choices": [], "usage": USAGE}]
        return "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"

    def send(self, kind: str, body: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *unused: object) -> None:
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
