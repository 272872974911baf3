"""A prefill of 7B whose host runs ahead of its device, and a second thread that does not.

    llmprof record --overhead 5% -- python3 ahead.py 30 [--aside]

One thread runs prefills of 4,096 tokens on a stream of its own and waits for them every 40th time. With --aside another thread
adds small numbers on a stream of its own meanwhile, and waits for that stream often. Prints how many rounds each has made.
"""

import argparse
import threading
import time

import program
import torch

WARM, TOKENS = 3, 4096


def prefills(model, prompt, until, rounds):
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        while time.monotonic() < until:
            model(input_ids=prompt, use_cache=False)
            rounds["prefills"] += 1
            if rounds["prefills"] % 40 == 0:
                torch.cuda.current_stream().synchronize()
        torch.cuda.current_stream().synchronize()


def additions(until, rounds):
    with torch.cuda.stream(torch.cuda.Stream()):
        value = torch.zeros(1024, device="cuda")
        while time.monotonic() < until:
            for _ in range(20):
                value.add_(1)
            torch.cuda.current_stream().synchronize()
            rounds["additions"] += 1
            time.sleep(0.002)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("--aside", action="store_true", help="with a second thread")
    arguments = parser.parse_args()
    model = program.build("7b")
    prompt = torch.randint(0, 1000, (1, TOKENS), device="cuda")
    with torch.no_grad():
        for _ in range(WARM):
            model(input_ids=prompt, use_cache=False)
    torch.cuda.synchronize()
    rounds = {"warm": WARM, "prefills": 0, "additions": 0}
    until = time.monotonic() + arguments.seconds
    threads = [threading.Thread(target=prefills, args=(model, prompt, until, rounds))]
    if arguments.aside:
        threads.append(threading.Thread(target=additions, args=(until, rounds)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(rounds, flush=True)


if __name__ == "__main__":
    main()
