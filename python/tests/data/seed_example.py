# The self-test of the sketch that this module carries on: unchanged but for the import.
import os

import torch

from llmprof_harness import NVMLSampler, advise_ncu_cmd, advise_nsys_cmd, nvtx_range, prof_to_csv, run_torch_profiler

if __name__ == "__main__":
    # Minimal synthetic example: a tiny matmul-based "decode" step
    device = "cuda" if torch.cuda.is_available() else "cpu"
    L, D = 2048, 4096
    W = torch.randn(D, D, device=device, dtype=torch.float16)
    x = torch.randn(L, D, device=device, dtype=torch.float16)

    def one_step(i):
        with nvtx_range("prefill" if i == 0 else "decode"):
            y = x @ W
            # simulate KV lookup / memory traffic
            y = y + torch.roll(y, shifts=1, dims=0)
            torch.cuda.synchronize()

    sampler = NVMLSampler(interval_s=0.2)
    sampler.start()
    prof = run_torch_profiler(one_step, steps=20, warmup=5, out_dir="prof_out")
    prof_to_csv(prof, "ops.csv")
    sampler.stop(); sampler.join()

    print("Try running these in your shell:")
    print("  ", advise_nsys_cmd(script=os.path.basename(__file__)))
    print("  ", advise_ncu_cmd(script=os.path.basename(__file__)))
