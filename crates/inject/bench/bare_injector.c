/* The least that records the same: what the overhead of the library is compared with.
 *
 * The same kinds of activity and the same calls, buffers of the same size, each walked and written to a file by the
 * callback that receives it. No thread of its own, no names, no ranges, no limits. With BARE_SUBSCRIBE=1 it subscribes as
 * the library does, to the making of nodes of graphs.
 *
 *   gcc -O2 -shared -fPIC -o libbare_injector.so bare_injector.c -ldl
 *   CUDA_INJECTION64_PATH=./libbare_injector.so BARE_OUTPUT=records.bin python3 program.py
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*get_next_fn)(uint8_t *, size_t, void **);
static get_next_fn get_next;
static int (*flush_all)(uint32_t);
static FILE *output;
static unsigned long records;
static const size_t SIZE = 512 << 10;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
static void requested(uint8_t **buffer, size_t *size, size_t *most) {
    *buffer = aligned_alloc(4096, SIZE);
    *size = SIZE;
    *most = 0;
}
static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context; (void)stream; (void)size;
    void *record = NULL;
    while (valid && get_next(buffer, valid, &record) == 0) records++;
    if (output) fwrite(buffer, 1, valid, output);
    free(buffer);
}
static void at_exit(void) {
    flush_all(1);
    if (output) fclose(output);
    if (getenv("BARE_SAY")) fprintf(stderr, "bare injector: %lu records\n", records);
}
static int find(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (name && !strncmp(name, "/libcupti.so", 12)) *(const char **)found = info->dlpi_name;
    return 0;
}
static int wanted(const char *name) {
    static const char *words[] = {"Launch", "Memcpy", "Memset", "Synchronize", "Malloc", "MemAlloc", "Free", "HostAlloc",
        "HostRegister", "ModuleLoad", "LibraryLoad", "GraphInstantiate", "GraphUpload", "StreamEndCapture"};
    static const char *not[] = {"Node", "GetParams", "SetParams", "LaunchHostFunc", "Attribute"};
    for (size_t i = 0; i < sizeof not / sizeof *not; i++) if (strstr(name, not[i])) return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) if (strstr(name, words[i])) return 1;
    return 0;
}
static void called(void *user, uint32_t domain, uint32_t id, const void *data) {
    (void)user; (void)domain; (void)id; (void)data;
}
int InitializeInjection(void) {
    const char *path = getenv("LLMPROF_CUPTI");
    if (!path) dl_iterate_phdr(find, &path);
    void *cupti = dlopen(path ? path : "libcupti.so.13", RTLD_NOW);
    if (!cupti) { fprintf(stderr, "bare injector: no libcupti\n"); return 1; }
#define GET(name, type) __typeof__(type) name = (__typeof__(type))dlsym(cupti, #name)
    GET(cuptiActivityRegisterCallbacks, int (*)(void *, void *));
    GET(cuptiActivityRegisterTimestampCallback, int (*)(void *));
    GET(cuptiSetThreadIdType, int (*)(uint32_t));
    GET(cuptiActivityEnable, int (*)(uint32_t));
    GET(cuptiActivityEnableRuntimeApi, int (*)(uint32_t, uint8_t));
    GET(cuptiActivityEnableDriverApi, int (*)(uint32_t, uint8_t));
    GET(cuptiGetCallbackName, int (*)(uint32_t, uint32_t, const char **));
    get_next = (get_next_fn)dlsym(cupti, "cuptiActivityGetNextRecord");
    flush_all = (int (*)(uint32_t))dlsym(cupti, "cuptiActivityFlushAll");
    if (getenv("BARE_SUBSCRIBE")) {
        GET(cuptiSubscribe, int (*)(void **, void *, void *));
        GET(cuptiEnableCallback, int (*)(uint32_t, void *, uint32_t, uint32_t));
        void *subscriber = NULL;
        cuptiSubscribe(&subscriber, (void *)called, NULL);
        cuptiEnableCallback(1, subscriber, 3, 13);
        cuptiEnableCallback(1, subscriber, 3, 20);
    }
    const char *file = getenv("BARE_OUTPUT");
    output = file ? fopen(file, "wb") : NULL;
    cuptiActivityRegisterTimestampCallback((void *)now);
    cuptiSetThreadIdType(1);
    cuptiActivityRegisterCallbacks((void *)requested, (void *)completed);
    const uint32_t kinds[] = {10, 1, 22, 2, 38, 17};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) cuptiActivityEnable(kinds[i]);
    for (uint32_t domain = 1; domain <= 2; domain++)
        for (uint32_t id = 1; id < 2048; id++) {
            const char *name = NULL;
            if (cuptiGetCallbackName(domain, id, &name) || !name || !wanted(name)) continue;
            (domain == 1 ? cuptiActivityEnableDriverApi : cuptiActivityEnableRuntimeApi)(id, 1);
        }
    atexit(at_exit);
    return 1;
}
