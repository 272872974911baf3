/* A CUDA device without hardware, seen through the stand-in for libcupti: one stream, whose work is done in order and takes
 * the time that it is given with. The host runs ahead of it until it waits.
 */
#include "../../../../inject/tests/stand_in/cupti.c"

#include <time.h>

/* How long a launch takes, how long until its work can begin, what lies between two pieces of work, ns. */
enum { CALL = 1000, LATENCY = 2500, BETWEEN = 300 };

static uint64_t done; /* when the device has done all that it was given */

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}
/* Gives the device work of so many ns; the answer is when it begins. */
static uint64_t queue(uint64_t called, uint64_t ns) {
    uint64_t start = called + LATENCY > done + BETWEEN ? called + LATENCY : done + BETWEEN;
    done = start + ns;
    return start;
}

/* Names must live as long as the process, as those of a program's kernels do. */
void device_kernel(const char *name, uint64_t ns) {
    passes(2, LAUNCH, 0);
    pthread_mutex_lock(&lock);
    uint64_t called = now(), start = queue(called, ns);
    uint32_t which = ++correlation;
    api(RUNTIME, LAUNCH, which, called, called + CALL);
    kernel_record(name, 0, 0, which, start, start + ns);
    pthread_mutex_unlock(&lock);
    passes(2, LAUNCH, 1);
}
/* All kernels of a graph, by one call. The nodes of a graph are numbered from 1, with the graph in the upper half. */
void device_graph(uint32_t graph, uint32_t count, const char *const *names, const uint64_t *ns) {
    passes(2, GRAPH_LAUNCH, 0);
    pthread_mutex_lock(&lock);
    uint64_t called = now();
    uint32_t which = ++correlation;
    api(RUNTIME, GRAPH_LAUNCH, which, called, called + CALL);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = queue(called, ns[i]);
        kernel_record(names[i], (uint64_t)graph << 32 | (i + 1), graph, which, start, start + ns[i]);
    }
    pthread_mutex_unlock(&lock);
    passes(2, GRAPH_LAUNCH, 1);
}
/* `kind` is CUPTI's: 1 to the device, 2 to the host. */
void device_copy(uint8_t kind, uint64_t bytes, uint64_t ns) {
    pthread_mutex_lock(&lock);
    uint64_t called = now(), start = queue(called, ns);
    uint32_t which = ++correlation;
    api(RUNTIME, MEMCPY_ASYNC, which, called, called + CALL);
    uint8_t *place = enabled[MEMCPY] ? record(MEMCPY) : NULL;
    if (place) {
        PUT(uint8_t, 4, kind); PUT(uint8_t, 5, kind == 1 ? 2 : 3); PUT(uint8_t, 6, kind == 1 ? 3 : 2); PUT(uint64_t, 8, bytes);
        PUT(uint64_t, 16, start); PUT(uint64_t, 24, start + ns);
        PUT(uint32_t, 32, 0); PUT(uint32_t, 36, 1); PUT(uint32_t, 40, 7); PUT(uint32_t, 44, which);
        PUT(uint64_t, 64, 0); PUT(uint32_t, 72, 0);
    }
    pthread_mutex_unlock(&lock);
}
/* When all work so far is done: what an event sees that is recorded now. */
uint64_t device_done(void) {
    uint64_t time = now();
    return time > done ? time : done;
}
void device_wait(uint64_t until) {
    uint64_t called = now();
    for (uint64_t time = called; time < until; time = now()) {
        struct timespec rest = {(time_t)((until - time) / 1000000000), (long)((until - time) % 1000000000)};
        nanosleep(&rest, NULL);
    }
    uint64_t end = now();
    pthread_mutex_lock(&lock);
    api(RUNTIME, STREAM_SYNC, ++correlation, called, end);
    uint8_t *place = enabled[SYNC] ? record(SYNC) : NULL;
    if (place) {
        PUT(uint32_t, 4, 3); PUT(uint64_t, 8, called); PUT(uint64_t, 16, end);
        PUT(uint32_t, 24, correlation); PUT(uint32_t, 28, 1); PUT(uint32_t, 32, 7);
    }
    pthread_mutex_unlock(&lock);
}
