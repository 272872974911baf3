#!/bin/sh
# Writes layouts.txt: where the fields that src/cupti/layout.rs reads lie in the records of each CUPTI, by NVIDIA's own
# headers. Needs pip, unzip and gcc, and network access to PyPI; run it when a new CUDA comes out.
#
#   sh layouts.sh > layouts.txt
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() {
    pip download -q --no-deps --only-binary=:all: --platform manylinux1_x86_64 --platform manylinux2014_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_27_x86_64 \
        --platform manylinux_2_28_x86_64 -d "$work/wheels" "$1" >&2
}
unpack() {
    mkdir -p "$work/$1"
    for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" -d "$work/$1"; rm "$wheel"; done
}
fetch nvidia-cuda-runtime-cu12==12.9.79; fetch nvidia-cuda-nvcc-cu12==12.9.86; unpack cuda12
fetch nvidia-cuda-runtime==13.4.92 || fetch nvidia-cuda-runtime; fetch nvidia-cuda-crt; unpack cuda13

cat > "$work/offsets.c" <<'C'
#include <stddef.h>
#include <stdio.h>
#include <cuda.h>
#include <cupti.h>
#define F(record, type, field) printf("%s %s %s %zu %zu\n", VERSION, record, #field, offsetof(type, field), sizeof(((type *)0)->field));
#define S(record, type) printf("%s %s size 0 %zu\n", VERSION, record, sizeof(type));
int main(void) {
#define K(f) F("kernel", KERNEL, f)
    K(registersPerThread) K(start) K(end) K(deviceId) K(contextId) K(streamId) K(gridX) K(blockX) K(staticSharedMemory)
    K(dynamicSharedMemory) K(correlationId) K(name) K(graphNodeId) K(graphId) S("kernel", KERNEL)
#define C(f) F("memcpy", MEMCPY, f)
    C(copyKind) C(srcKind) C(dstKind) C(bytes) C(start) C(end) C(deviceId) C(contextId) C(streamId) C(correlationId)
    C(graphNodeId) C(graphId) S("memcpy", MEMCPY)
#define P(f) F("memcpy2", MEMCPYPTOP, f)
    P(copyKind) P(srcKind) P(dstKind) P(bytes) P(start) P(end) P(deviceId) P(contextId) P(streamId) P(correlationId)
    P(graphNodeId) P(graphId) S("memcpy2", MEMCPYPTOP)
#define M(f) F("memset", MEMSET, f)
    M(bytes) M(start) M(end) M(deviceId) M(contextId) M(streamId) M(correlationId) M(memoryKind) M(graphNodeId)
    M(graphId) S("memset", MEMSET)
#define Y(f) F("sync", SYNCHRONIZATION, f)
    Y(type) Y(start) Y(end) Y(correlationId) Y(contextId) Y(streamId) S("sync", SYNCHRONIZATION)
#define A(f) F("api", CUpti_ActivityAPI, f)
    A(cbid) A(start) A(end) A(threadId) A(correlationId) A(returnValue) S("api", CUpti_ActivityAPI)
#define O(f) F("overhead", OVERHEAD, f)
    O(overheadKind) O(objectKind) O(start) O(end) S("overhead", OVERHEAD)
    F("callback", CUpti_CallbackData, callbackSite) S("callback", CUpti_CallbackData)
    printf("%s callback exit %d 4\n", VERSION, CUPTI_API_EXIT);
    printf("%s overhead objectThread %zu 4\n", VERSION, offsetof(OVERHEAD, objectId) + offsetof(CUpti_ActivityObjectKindId, pt.threadId));
    return 0;
}
C

echo "# version record field offset size, by NVIDIA's headers (tests/layouts.sh)"
for version in 12.0.90 12.1.105 12.2.142 12.3.101 12.4.127 12.5.82 12.6.80 12.8.90 12.9.79 \
    13.0.85 13.1.115 13.2.86 13.3.75 13.4.92; do
    case $version in
    12.*) fetch "nvidia-cuda-cupti-cu12==$version"; cuda=$work/cuda12 ;;
    *) fetch "nvidia-cuda-cupti==$version"; cuda=$work/cuda13 ;;
    esac
    unpack "cupti-$version"
    cupti=$(dirname "$(find "$work/cupti-$version" -name cupti.h)")
    includes="-I$cupti -I$(dirname "$(find "$cuda" -name cuda.h)") -I$(dirname "$(find "$cuda" -name crt -type d | head -1)")"
    # The record of a version is the one with the highest number that is not in the deprecated header.
    latest() { grep -oE "^\} CUpti_Activity$1[0-9]*;" "$cupti/cupti_activity.h" | tr -d '}; ' | sort -V | tail -1; }
    # shellcheck disable=SC2086
    gcc $includes -DVERSION="\"$version\"" -DKERNEL="$(latest Kernel)" -DMEMCPY="$(latest Memcpy)" \
        -DMEMCPYPTOP="$(latest MemcpyPtoP)" -DMEMSET="$(latest Memset)" -DSYNCHRONIZATION="$(latest Synchronization)" \
        -DOVERHEAD="$(latest Overhead)" "$work/offsets.c" -o "$work/offsets"
    "$work/offsets"
done
