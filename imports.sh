# usage: imports.sh BINARY OUTDIR
B=$1; O=$2; F=/tmp/h/wt-report/fixtures/h200; rm -rf $O; mkdir -p $O; cd $O
run() { n=$1; shift; $B import "$@" -o $n > $n.out 2> $n.err || echo "$n failed"; }
run kineto $F/torch_shapes.json.gz
run kinetom $F/torch_full.json.gz model=qwen2_5_0_5b --device h200
run nsys $F/nsys/qwen05.sqlite.gz model=qwen2_5_0_5b --device h200
run ncu $F/ncu/decode_details.csv.gz
run memory $F/memory_snapshot.pickle.gz
run sums $F/nsys/stats_cuda_gpu_kern_sum.csv $F/nsys/stats_nvtx_sum.csv
run slices $F/cupti/slices.wire.gz
run graph $F/cupti/graph.wire.gz
run cpu $F/../cpu/torch_modules.json.gz
run mixed $F/torch_full.json.gz $F/ncu/decode_raw.csv.gz $F/memory_snapshot.pickle.gz
