/* A stand-in for libcupti: the functions that the library uses, with records of the layout of a chosen version.
 *
 * STANDIN_VERSION  what cuptiGetVersion says; the sizes of records follow it (130001)
 * STANDIN_REFUSE   what cuptiSubscribe returns (0)
 * STANDIN_ENABLE   what cuptiActivityEnable returns for kernels (0)
 * STANDIN_TAKEN    "A,B": the subscriptions from the A-th on and before the B-th are refused: another tool has CUPTI
 * STANDIN_FINALIZE what cuptiFinalize returns (0)
 * STANDIN_LAG      how far the device is behind the program, ms: what it has not done yet is handed out by force only, without times (0)
 * STANDIN_LATE     how long after the device it knows the times of what was done, ms (0)
 * STANDIN_ASIDE    1: waits are for another stream, on which nothing runs (0)
 * STANDIN_START    how long it takes to record kernels again after it has left, ms (0)
 * STANDIN_HOLD     1: takes the next buffer when it hands out one; 2: and hands it out, with a record, when it is finalized (0)
 *
 * cuptiFinalize must be called at the end of a call, when all records were handed out and nobody is inside. It spoils the
 * names of kernels, forgets everything, keeps a buffer and counts from 1 again, and only cuptiSubscribe may come after
 * it. Whoever does otherwise is ended. As on an H200 with CUDA 13.0: once it has been called, or where the first call of the
 * program came while none was wanted, single calls that are switched on give no records unless all of them are; graphs
 * that were made or ran while kernels were recorded fail afterwards; and kernels of graphs are recorded for good, until recording is
 * begun and ended once more, in a context that was made while kernels were recorded.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void (*requested_fn)(uint8_t **, size_t *, size_t *);
typedef void (*completed_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef void (*called_fn)(void *, uint32_t, uint32_t, const void *);
typedef uint64_t (*timestamp_fn)(void);

enum { MEMCPY = 1, MEMSET = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, OVERHEAD = 17, SYNC = 38 };
enum { LAUNCH = 211, GET_DEVICE = 17, GRAPH_LAUNCH = 311, STREAM_SYNC = 131, MEMCPY_ASYNC = 41, PROFILER_STOP = 191, DRIVER_LAUNCH = 307 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static requested_fn requested;
static completed_fn completed;
static called_fn called;
static timestamp_fn timestamp;
static uint8_t enabled[64], runtime_on[1024], driver_on[1024];
static uint8_t *buffer;
static size_t size, used, dropped;
static uint32_t correlation;
/* When the device will have done all that is recorded of it. */
static uint64_t busy_until;
static uint8_t called_on[5][1024];
/* The process that CUPTI is gone from, how often it went, and how often somebody subscribed. */
static pid_t gone;
static uint32_t finalized, subscribed, graphs_recorded;
static uint32_t started;
/* Whether kernels of graphs are recorded whoever stops it. */
static uint8_t sticks;
/* Functions of CUPTI that are being called. */
static _Atomic int inside;
/* Calls of the program that are under way on this thread, and whether the innermost is at its end. */
static __thread int calls_open, at_end;
static struct { const char *given; char *own; } kept_names[8];

static void fail(const char *why) {
    fprintf(stderr, "stand-in: %s\n", why);
    abort();
}
static void use(const char *function) {
    if (gone == getpid()) fail(function);
    inside++;
}
#define USED use(__func__)
#define RETURN(value) do { inside--; return (value); } while (0)

static uint32_t number(const char *name, uint32_t otherwise) {
    const char *text = getenv(name);
    return text ? (uint32_t)atoi(text) : otherwise;
}
static uint32_t version(void) { return number("STANDIN_VERSION", 130001); }

static size_t size_of(uint32_t kind) {
    uint32_t v = version();
    switch (kind) {
    case KERNEL: return v < 130000 ? 208 : v < 130100 ? 216 : v < 130300 ? 224 : v < 130400 ? 232 : 248;
    case MEMCPY: return v < 26 ? 88 : v < 130400 ? 96 : 112;
    case MEMSET: return v < 130400 ? 88 : 104;
    case SYNC: return v < 26 ? 40 : 56;
    case OVERHEAD: return v < 21 ? 40 : v == 21 ? 48 : 56;
    default: return 40;
    }
}

int cuptiGetVersion(uint32_t *out) { *out = version(); return 0; }
int cuptiGetResultString(int status, const char **text) { *text = status == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "an error"; return 0; }
int cuptiSubscribe(void **subscriber, called_fn function, void *user) {
    (void)user;
    uint32_t refuse = number("STANDIN_REFUSE", 0), from = 0, before = 0;
    if (refuse) return (int)refuse;
    const char *taken = getenv("STANDIN_TAKEN");
    subscribed++;
    if (taken && sscanf(taken, "%u,%u", &from, &before) == 2 && subscribed >= from && subscribed < before) return 39;
    pthread_mutex_lock(&lock);
    gone = 0;
    called = function;
    pthread_mutex_unlock(&lock);
    *subscriber = &called;
    return 0;
}
int cuptiUnsubscribe(void *subscriber) {
    USED;
    if (subscriber != &called) fail("not a subscriber");
    called = NULL;
    memset(called_on, 0, sizeof called_on);
    RETURN(0);
}
int cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t id) {
    USED;
    if (subscriber != &called) fail("not a subscriber");
    called_on[domain][id] = (uint8_t)on;
    RETURN(0);
}
int cuptiActivityRegisterCallbacks(requested_fn r, completed_fn c) { USED; requested = r; completed = c; RETURN(0); }
int cuptiActivityRegisterTimestampCallback(timestamp_fn function) { USED; timestamp = function; RETURN(0); }
int cuptiSetThreadIdType(uint32_t type) { USED; RETURN(type == 1 ? 0 : 1); }
int cuptiActivityEnable(uint32_t kind) {
    USED;
    if (kind == KERNEL && number("STANDIN_ENABLE", 0)) RETURN((int)number("STANDIN_ENABLE", 0));
    if (kind == RUNTIME) memset(runtime_on, 1, sizeof runtime_on);
    if (kind == DRIVER) memset(driver_on, 1, sizeof driver_on);
    if (kind == KERNEL) { started++; sticks = 0; }
    if (kind == KERNEL && finalized) usleep(1000 * number("STANDIN_START", 0));
    enabled[kind] = 1;
    RETURN(0);
}
int cuptiActivityDisable(uint32_t kind) {
    USED;
    if (kind == RUNTIME) memset(runtime_on, 0, sizeof runtime_on);
    if (kind == DRIVER) memset(driver_on, 0, sizeof driver_on);
    enabled[kind] = 0;
    RETURN(0);
}
#ifndef OLD /* CUPTI before 12.5 has neither of these. */
int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on) { USED; runtime_on[id] = on; RETURN(0); }
int cuptiActivityEnableDriverApi(uint32_t id, uint8_t on) { USED; driver_on[id] = on; RETURN(0); }
#endif

int cuptiGetCallbackName(uint32_t domain, uint32_t id, const char **name) {
    const char *found = NULL;
    if (domain == 2 && id == LAUNCH) found = "cudaLaunchKernel_v7000";
    if (domain == 2 && id == GET_DEVICE) found = "cudaGetDevice_v3020";
    if (domain == 2 && id == GRAPH_LAUNCH) found = "cudaGraphLaunch_v10000";
    if (domain == 2 && id == STREAM_SYNC) found = "cudaStreamSynchronize_v3020";
    if (domain == 2 && id == MEMCPY_ASYNC) found = "cudaMemcpyAsync_v3020";
    if (domain == 2 && id == PROFILER_STOP) found = "cudaProfilerStop_v4000";
    if (domain == 1 && id == DRIVER_LAUNCH) found = "cuLaunchKernel";
    if (!found) return 1;
    *name = found;
    return 0;
}
int cuptiGetGraphNodeId(void *node, uint64_t *id) { *id = (uint64_t)(uintptr_t)node; return 0; }
int cuptiGetGraphId(void *graph, uint32_t *id) { *id = (uint32_t)(uintptr_t)graph; return 0; }
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
    (void)context; (void)stream;
    USED;
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    RETURN(0);
}
int cuptiActivityGetNextRecord(uint8_t *memory, size_t valid, uint8_t **record) {
    USED;
    uint8_t *next = *record ? *record + size_of(*(uint32_t *)*record) : memory;
    if (next >= memory + valid) RETURN(12);
    *record = next;
    RETURN(0);
}
static void hand_over(void) {
    uint8_t *full = buffer;
    size_t bytes = used, whole = size;
    buffer = NULL;
    used = size = 0;
    if (full) completed(NULL, 0, full, whole, bytes);
}
/* Takes the times off kernels that the device has not done yet. */
static void forget_times(uint64_t now) {
    for (uint8_t *place = buffer; place < buffer + used; place += size_of(*(uint32_t *)place))
        if (*(uint32_t *)place == KERNEL && *(uint64_t *)(place + 24) > now) memset(place + 16, 0, 16);
}
int cuptiActivityFlushAll(uint32_t flag) {
    USED;
    pthread_mutex_lock(&lock);
    uint64_t now = timestamp ? timestamp() - 1000000ull * number("STANDIN_LATE", 0) : 0;
    if (used && flag && number("STANDIN_LAG", 0)) forget_times(now);
    if (used && (flag || busy_until <= now)) hand_over();
    if (!buffer && number("STANDIN_HOLD", 0)) { size_t most = 0; requested(&buffer, &size, &most); }
    pthread_mutex_unlock(&lock);
    RETURN(0);
}
int cuptiFinalize(void) {
    if (gone == getpid()) fail("cuptiFinalize twice");
    if (calls_open != 1 || !at_end) fail("cuptiFinalize elsewhere than at the end of the outermost call");
    if (inside) fail("cuptiFinalize while somebody is inside");
    if (graphs_recorded) fail("cuptiFinalize after graphs were made or ran while kernels were recorded");
    if (number("STANDIN_FINALIZE", 0)) return (int)number("STANDIN_FINALIZE", 0);
    pthread_mutex_lock(&lock);
    if (used) fail("cuptiFinalize before all records were handed out");
    /* A buffer that nobody gets back, or too late. */
    if (!buffer) { size_t most = 0; requested(&buffer, &size, &most); }
    if (number("STANDIN_HOLD", 0) == 2) completed(NULL, 0, buffer, size, size_of(SYNC));
    buffer = NULL;
    size = 0;
    gone = getpid();
    finalized++;
    called = NULL;
    requested = NULL;
    completed = NULL;
    timestamp = NULL;
    correlation = 0;
    memset(called_on, 0, sizeof called_on);
    memset(enabled, 0, sizeof enabled);
    memset(runtime_on, 0, sizeof runtime_on);
    memset(driver_on, 0, sizeof driver_on);
    for (int i = 0; kept_names[i].own; i++) memset(kept_names[i].own, 'x', strlen(kept_names[i].own));
    memset(kept_names, 0, sizeof kept_names);
    pthread_mutex_unlock(&lock);
    return 0;
}
uint32_t standin_finalized(void) { return finalized; }
/* How often recording of kernels was switched on. */
uint32_t standin_started(void) { return started; }

static uint8_t *record(uint32_t kind) {
    size_t bytes = size_of(kind);
    if (used + bytes > size) hand_over();
    if (!buffer) {
        size_t most = 0;
        requested(&buffer, &size, &most);
        used = 0;
        if (!buffer || size < bytes) { buffer = NULL; dropped++; return NULL; }
    }
    uint8_t *place = buffer + used;
    used += bytes;
    memset(place, 0xAA, bytes); /* what is not set is not zero */
    *(uint32_t *)place = kind;
    return place;
}
#define PUT(type, offset, value) (*(type *)(place + (offset)) = (type)(value))

static void api(uint32_t kind, uint32_t id, uint32_t which, uint64_t start, uint64_t end) {
    static int was_wanted = -1;
    const uint8_t *on = kind == RUNTIME ? runtime_on : driver_on;
    if (was_wanted < 0) was_wanted = memchr(on, 1, sizeof runtime_on) != NULL;
    if (!on[id] || ((finalized || !was_wanted) && !enabled[kind])) return;
    uint8_t *place = record(kind);
    if (!place) return;
    PUT(uint32_t, 4, id); PUT(uint64_t, 8, start); PUT(uint64_t, 16, end);
    PUT(uint32_t, 28, syscall(SYS_gettid)); PUT(uint32_t, 32, which); PUT(uint32_t, 36, 0);
}

/* What a program does on its device. Each makes the records that CUPTI would. */
static void kernel_record(const char *name, uint64_t node, uint32_t graph, uint32_t which, uint64_t start, uint64_t end) {
    uint8_t *place = enabled[KERNEL] || (node && sticks) ? record(KERNEL) : NULL;
    if (!place) return;
    PUT(uint16_t, 6, 32); PUT(uint64_t, 16, start); PUT(uint64_t, 24, end);
    PUT(uint32_t, 40, 0); PUT(uint32_t, 44, 1); PUT(uint32_t, 48, 7);
    for (int axis = 0; axis < 3; axis++) { PUT(int32_t, 52 + 4 * axis, 10 + axis); PUT(int32_t, 64 + 4 * axis, 20 + axis); }
    PUT(int32_t, 76, 1024); PUT(int32_t, 80, 2048); PUT(uint32_t, 92, which);
    PUT(const char *, 104, name); PUT(uint64_t, 144, node); PUT(uint32_t, 156, graph);
}
/* The name of a kernel as CUPTI keeps it: its own, for as long as it stays. */
static const char *kept_name(const char *given) {
    int i = 0;
    while (kept_names[i].own && strcmp(kept_names[i].given, given)) i++;
    if (!kept_names[i].own) { kept_names[i].given = given; kept_names[i].own = strdup(given); }
    return kept_names[i].own;
}
/* A call of the program begins or ends: whoever wants to know is called. */
static void passes(uint32_t domain, uint32_t id, int ends) {
    struct { uint32_t site; const void *rest[8]; } data = {(uint32_t)ends, {NULL}};
    called_fn function = called;
    calls_open += !ends;
    at_end = ends;
    if (function && called_on[domain][id]) function(NULL, domain, id, &data);
    calls_open -= ends;
    at_end = 0;
}
static void run_kernel(const char *name, uint64_t node, uint32_t graph) {
    pthread_mutex_lock(&lock);
    if (!timestamp) { pthread_mutex_unlock(&lock); return; }
    uint32_t which = ++correlation;
    uint64_t start = timestamp();
    api(RUNTIME, GET_DEVICE, which + 1000000, start, start + 10);
    api(RUNTIME, node ? GRAPH_LAUNCH : LAUNCH, which, start, start + 2000);
    uint64_t begin = start + 3000 + 1000000ull * number("STANDIN_LAG", 0);
    kernel_record(kept_name(name), node, graph, which, begin, begin + 1000);
    if (node) graphs_recorded |= enabled[KERNEL];
    /* Without a lag it is done at once. */
    if (enabled[KERNEL] && begin > start + 3000) busy_until = begin + 1000;
    pthread_mutex_unlock(&lock);
}
/* A launch by the runtime, inside which the driver is called. */
void standin_kernel(const char *name, uint64_t node, uint32_t graph) {
    uint32_t id = node ? GRAPH_LAUNCH : LAUNCH;
    passes(2, id, 0);
    passes(1, DRIVER_LAUNCH, 0);
    run_kernel(name, node, graph);
    passes(1, DRIVER_LAUNCH, 1);
    passes(2, id, 1);
}
void standin_wait(void) {
    passes(2, STREAM_SYNC, 0);
    while (!number("STANDIN_ASIDE", 0) && timestamp && timestamp() < busy_until) usleep(1000);
    passes(2, STREAM_SYNC, 1);
}
void standin_others(void) {
    pthread_mutex_lock(&lock);
    if (!timestamp) { pthread_mutex_unlock(&lock); return; }
    uint64_t start = timestamp();
    uint32_t which = ++correlation;
    api(RUNTIME, MEMCPY_ASYNC, which, start, start + 500);
    uint8_t *place = enabled[MEMCPY] ? record(MEMCPY) : NULL;
    if (place) {
        PUT(uint8_t, 4, 1); PUT(uint8_t, 5, 2); PUT(uint8_t, 6, 3); PUT(uint64_t, 8, 4096);
        PUT(uint64_t, 16, start + 600); PUT(uint64_t, 24, start + 700);
        PUT(uint32_t, 32, 0); PUT(uint32_t, 36, 1); PUT(uint32_t, 40, 7); PUT(uint32_t, 44, which);
        PUT(uint64_t, 64, 0); PUT(uint32_t, 72, 0);
    }
    place = enabled[MEMSET] ? record(MEMSET) : NULL;
    if (place) {
        PUT(uint64_t, 8, 512); PUT(uint64_t, 16, start + 800); PUT(uint64_t, 24, start + 900);
        PUT(uint32_t, 32, 0); PUT(uint32_t, 36, 1); PUT(uint32_t, 40, 7); PUT(uint32_t, 44, ++correlation);
        PUT(uint16_t, 50, 3); PUT(uint64_t, 64, 0); PUT(uint32_t, 72, 0);
    }
    api(RUNTIME, STREAM_SYNC, ++correlation, start + 900, start + 1900);
    place = enabled[SYNC] ? record(SYNC) : NULL;
    if (place) {
        PUT(uint32_t, 4, 3); PUT(uint64_t, 8, start + 900); PUT(uint64_t, 16, start + 1900);
        PUT(uint32_t, 24, correlation); PUT(uint32_t, 28, 1); PUT(uint32_t, 32, 7);
    }
    place = enabled[OVERHEAD] ? record(OVERHEAD) : NULL;
    if (place) {
        PUT(uint32_t, 4, 2 << 16); PUT(uint32_t, 8, 2); PUT(uint32_t, 16, syscall(SYS_gettid));
        PUT(uint64_t, 24, start); PUT(uint64_t, 32, start + 50);
    }
    pthread_mutex_unlock(&lock);
}
/* A kernel that the device has not finished: it has no times. */
void standin_unfinished(void) {
    pthread_mutex_lock(&lock);
    uint8_t *place = enabled[KERNEL] ? record(KERNEL) : NULL;
    if (place) { PUT(uint64_t, 16, 0); PUT(uint64_t, 24, 0); PUT(const char *, 104, NULL); }
    pthread_mutex_unlock(&lock);
}
void standin_context(void) {
    void *resource[3] = {NULL, NULL, NULL};
    sticks = enabled[KERNEL];
    if (called && called_on[3][1]) called(NULL, 3, 1, resource);
}
void standin_node(uint64_t node, uint64_t original, uint32_t graph) {
    void *data[8] = {(void *)(uintptr_t)graph, NULL, (void *)(uintptr_t)node, (void *)(uintptr_t)original, NULL, NULL, NULL, NULL};
    void *resource[3] = {NULL, NULL, data};
    uint32_t id = original ? 20 : 13;
    graphs_recorded |= enabled[KERNEL];
    if (called && called_on[3][id]) called(NULL, 3, id, resource);
}
