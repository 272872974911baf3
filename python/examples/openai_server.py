"""A small OpenAI-compatible server around transformers, random weights, one request at a time. Downloads nothing.

Loaded, recorded and explained by llmprof; `step` ranges let the report join requests, engine steps and GPU time:

    llmprof bench --serve 'python python/examples/openai_server.py --port 8123' --rate 2 --requests 32 --prompt-tokens 128 --output-tokens 32
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM, StaticCache

from llmprof_harness import step

NAME = "random-qwen2"
# Positions of the cache of `--compile`, which cannot grow.
POSITIONS = 1024


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="bfloat16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--compile", action="store_true", help="decode is one compiled CUDA graph, with a cache of fixed size")
    return parser.parse_args()


class Engine:
    """The model, on a thread of its own: the only one that uses the device."""

    def __init__(self, args: argparse.Namespace) -> None:
        heads = max(args.hidden // 64, 1)
        config = Qwen2Config(
            hidden_size=args.hidden,
            intermediate_size=args.hidden * 38 // 7,
            num_hidden_layers=args.layers,
            num_attention_heads=heads,
            num_key_value_heads=2 if heads % 2 == 0 else 1,
            vocab_size=151_936 if args.hidden >= 512 else 1024,
            tie_word_embeddings=True,
        )
        torch.manual_seed(0)
        torch.set_default_dtype(getattr(torch, args.dtype))
        with torch.device(args.device):
            self.model = Qwen2ForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)
        self.device = args.device
        self.fixed: StaticCache | None = None
        self.decode = self.model.forward
        if args.compile:
            self.fixed = StaticCache(config=config, max_cache_len=POSITIONS)
            self.decode = torch.compile(self.model.forward, mode="reduce-overhead", dynamic=False)
        self.waiting: queue.Queue[tuple[list[int], int, queue.Queue[int | None]]] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def generate(self, prompt: list[int], new_tokens: int) -> Iterator[int]:
        """Tokens as they are made."""
        made: queue.Queue[int | None] = queue.Queue()
        self.waiting.put((prompt, new_tokens, made))
        while (token := made.get()) is not None:
            yield token

    @torch.inference_mode()
    def _work(self) -> None:
        while True:
            prompt, new_tokens, made = self.waiting.get()
            try:
                self._request(prompt, new_tokens, made)
            finally:
                made.put(None)

    def _request(self, prompt: list[int], new_tokens: int, made: queue.Queue[int | None]) -> None:
        vocabulary = self.model.config.vocab_size
        tokens = torch.tensor([[token % vocabulary for token in prompt]], device=self.device)
        if self.fixed is not None:
            self.fixed.reset()
            new_tokens = min(new_tokens, POSITIONS - len(prompt))
        cache = DynamicCache() if self.fixed is None else self.fixed
        cached = 0
        for index in range(new_tokens):
            new = tokens.shape[1]
            with step(batch=1, new_tokens=new, cached=cached):
                forward = self.model.forward if index == 0 else self.decode
                logits = forward(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
                tokens = logits[:, -1].argmax(-1, keepdim=True)
                token = int(tokens)
            cached += new
            made.put(token)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_GET(self) -> None:
        pages = {"/health": {}, "/v1/models": {"object": "list", "data": [{"id": NAME, "object": "model"}]}}
        page: dict[str, Any] | None = pages.get(self.path)
        self._answer(200 if page is not None else 404, page if page is not None else {"error": {"message": "unknown path"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path != "/v1/completions":
            self._answer(404, {"error": {"message": "unknown path"}})
            return
        prompt = body.get("prompt", "")
        ids = prompt if isinstance(prompt, list) else [ord(letter) for letter in prompt]
        made = self.engine.generate(ids or [0], int(body.get("max_tokens") or 16))
        if body.get("stream"):
            self._stream(len(ids), made)
            return
        tokens = list(made)
        self._answer(200, self._chunk(len(ids), len(tokens), "".join(f" {token}" for token in tokens), "length"))

    def _stream(self, prompt_tokens: int, made: Iterator[int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        count = 0
        for token in made:
            count += 1
            self._event(json.dumps(self._chunk(prompt_tokens, count, f" {token}", None)))
        self._event(json.dumps(self._chunk(prompt_tokens, count, "", "length")))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.wfile.flush()

    @staticmethod
    def _chunk(prompt_tokens: int, count: int, text: str, reason: str | None) -> dict[str, Any]:
        return {
            "id": "cmpl",
            "object": "text_completion",
            "model": NAME,
            "choices": [{"index": 0, "text": text, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": count,
                "total_tokens": prompt_tokens + count,
            },
        }

    def _answer(self, status: int, page: dict[str, Any]) -> None:
        text = json.dumps(page).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing: a line for every request would be in the way of the server's own messages."""


def main() -> None:
    args = arguments()
    Handler.engine = Engine(args)
    for _ in Handler.engine.generate([1, 2, 3], 4):
        pass
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
