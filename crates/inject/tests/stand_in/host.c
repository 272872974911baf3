/* A program as it looks to the library: it initializes "CUDA" and NVTX as the driver and the NVTX headers do, and then
 * does what its arguments say, one after the other.
 *
 *   cuda nvtx push:NAME pop domain:NAME,RANGE wide:NAME start:NAME mark:NAME
 *   deep:N (so many ranges inside of one another) marks:N starts:N (ranges that never end)
 *   kernels:N context others unfinished node:ID,ORIGINAL graphkernel:NODE steps:COUNT,KERNELS,MS sleep:MS
 *   loop:COUNT,KERNELS,MS (steps that wait for the device) replay:COUNT,NODE,MS (steps of a graph) crowd:THREADS,COUNT,KERNELS
 *   parts:COUNT,KERNELS,MS (steps with two ranges `part` in them, and launches and waits between these)
 *   layers:COUNT,LAYERS,MS (steps of as many layers, each of which keeps a processor busy for so long)
 *   until:LEFT,STARTED (steps go on beyond their count until CUPTI has left that often and recording has begun that often from here)
 *   leave:MS (waits until CUPTI has left, no longer than that) finalized
 *   takeall:COUNT,DIRECTORY (closes all descriptors and opens files of its own) forked (are these open in a child?)
 *   thread:NAME,KERNELS fork:CUDA spawn kill abort quick filesize:BYTES print:TEXT exit:CODE
 *   full (waits until a file has as many bytes as `filesize` allows)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static void (*kernel)(const char *, uint64_t, uint32_t);
static void (*others)(void);
static void (*wait_for_device)(void);
static uint32_t (*finalized)(void);
static uint32_t (*started)(void);
static uint32_t wanted_left, wanted_started;
static void (*unfinished)(void);
static void (*make_node)(uint64_t, uint64_t, uint32_t);
static void (*make_context)(void);

typedef void (*function)(void);
/* The tables of NVTX: places for functions, by number. */
static function core[16], core2[16];
static function *core_table[16], *core2_table[16];
struct attributes { uint16_t version, size; uint32_t category; int32_t color_type; uint32_t color; int32_t payload_type, reserved; uint64_t payload; int32_t message_type; const void *message; };
static struct attributes text(const char *message) { struct attributes a = {3, 48, 0, 0, 0, 0, 0, 0, 1, message}; return a; }
static int module_table(int module, function ***table, unsigned *size) {
    *table = module == 1 ? core_table : module == 5 ? core2_table : NULL;
    *size = 16;
    return *table != NULL;
}
static struct { size_t size; int (*module_table)(int, function ***, unsigned *); } exports = {16, module_table};
static const void *export_table(uint32_t id) { return id == 1 ? &exports : NULL; }
static void noop(void) {}

static void *open_library(const char *variable) {
    const char *path = getenv(variable);
    return path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}
static void start_cuda(void) {
    void *library = open_library("CUDA_INJECTION64_PATH");
    int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (initialize) initialize();
    void *cupti = open_library("LLMPROF_CUPTI");
    if (!cupti) return;
    kernel = (void (*)(const char *, uint64_t, uint32_t))dlsym(cupti, "standin_kernel");
    others = (void (*)(void))dlsym(cupti, "standin_others");
    wait_for_device = (void (*)(void))dlsym(cupti, "standin_wait");
    finalized = (uint32_t (*)(void))dlsym(cupti, "standin_finalized");
    started = (uint32_t (*)(void))dlsym(cupti, "standin_started");
    unfinished = (void (*)(void))dlsym(cupti, "standin_unfinished");
    make_node = (void (*)(uint64_t, uint64_t, uint32_t))dlsym(cupti, "standin_node");
    make_context = (void (*)(void))dlsym(cupti, "standin_context");
    make_context();
}
static void start_nvtx(void) {
    for (int i = 0; i < 16; i++) { core[i] = core2[i] = noop; core_table[i] = &core[i]; core2_table[i] = &core2[i]; }
    void *library = open_library("NVTX_INJECTION64_PATH");
    int (*initialize)(const void *(*)(uint32_t)) = library ? (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2") : NULL;
    if (initialize) initialize(export_table);
}
static void push(const char *name) { if (core[9]) ((int (*)(const char *))core[9])(name); }
static void pop(void) { if (core[11]) ((int (*)(void))core[11])(); }
static void kernels(int count) { for (int i = 0; i < count && kernel; i++) kernel(i % 2 ? "_Z4axpyfPfS_" : "gemm_kernel", 0, 0); }
static void rest(int ms) { usleep((useconds_t)ms * 1000); }

/* Whether there is another step: so many, and more of them, up to 30,000, until what is waited for has happened. */
static int another(long *count) {
    if (--*count >= 0) return 1;
    return *count > -30000 && finalized && (finalized() < wanted_left || started() < wanted_started);
}
static void loop(long count, long launches, long ms) {
    while (another(&count)) {
        push("decode_step");
        kernels((int)launches);
        wait_for_device();
        rest((int)ms);
        pop();
    }
}
static void part(long launches, long ms) {
    kernels((int)launches);
    wait_for_device();
    rest((int)ms);
    wait_for_device();
}
static void parts(long count, long launches, long ms) {
    while (another(&count)) {
        push("decode_step");
        for (int i = 0; i < 2; i++) {
            push("part");
            part(launches, ms);
            pop();
            part(launches, ms);
        }
        pop();
    }
}
static void work(long ms) {
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}
static void layers(long count, long layers, long ms) {
    while (another(&count)) {
        kernel("lookup_kernel", 0, 0);
        for (long i = 0; i < layers; i++) { kernels(12); work(ms); }
        kernel("choice_kernel", 0, 0);
        wait_for_device();
    }
}
static void *in_crowd(void *argument) {
    const long *numbers = argument;
    loop(numbers[0], numbers[1], 1);
    return NULL;
}
static void *in_thread(void *argument) {
    char name[64];
    int count = 0;
    sscanf(argument, "%63[^,],%d", name, &count);
    push(name);
    kernels(count);
    pop();
    return NULL;
}
/* Closes every descriptor that it does not know, as a daemon does, and has so many files of its own after that. */
static int own[1024], owned;
static void take_all(const char *directory, int count) {
    for (int i = 3; i < 4096; i++) close(i);
    char name[512];
    for (owned = 0; owned < count && owned < 1024; owned++) {
        snprintf(name, sizeof name, "%s/own-%d", directory, owned);
        own[owned] = open(name, O_RDWR | O_CREAT, 0600);
    }
}
static int are_all_open(void) {
    for (int i = 0; i < owned; i++)
        if (own[i] < 0 || fcntl(own[i], F_GETFD) < 0) return 0;
    return 1;
}
/* A minute is far more than the library's thread waits for a processor. */
static void wait_until_full(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    for (int tries = 0; tries < 60000; tries++, rest(1))
        for (int file = 3; file < 1024; file++) {
            struct stat facts;
            if (!fstat(file, &facts) && S_ISREG(facts.st_mode) && (rlim_t)facts.st_size >= limit.rlim_cur) return;
        }
    exit(95);
}
static void act(const char *word, char **self) {
    char name[256] = "";
    long a = 0, b = 0, c = 0;
    const char *value = strchr(word, ':') ? strchr(word, ':') + 1 : "";
    if (!strcmp(word, "cuda")) start_cuda();
    else if (!strcmp(word, "nvtx")) start_nvtx();
    else if (!strncmp(word, "push:", 5)) push(value);
    else if (!strcmp(word, "pop")) pop();
    else if (sscanf(word, "domain:%255[^,]", name) == 1) {
        void *domain = ((void *(*)(const char *))core2[12])(name);
        struct attributes event = text(strchr(value, ',') + 1);
        ((int (*)(void *, const struct attributes *))core2[4])(domain, &event);
        kernels(1);
        ((int (*)(void *))core2[5])(domain);
    } else if (!strncmp(word, "wide:", 5)) {
        wchar_t wide[256];
        swprintf(wide, 256, L"%s", value);
        ((void (*)(const wchar_t *))core[3])(wide);
    } else if (!strncmp(word, "start:", 6)) {
        uint64_t range = ((uint64_t(*)(const char *))core[5])(value);
        kernels(1);
        ((void (*)(uint64_t))core[7])(range);
    } else if (!strncmp(word, "mark:", 5)) ((void (*)(const char *))core[2])(value);
    else if (sscanf(word, "deep:%ld", &a) == 1) {
        for (long i = 0; i < a; i++) push("deep");
        for (long i = 0; i < a; i++) pop();
    } else if (sscanf(word, "marks:%ld", &a) == 1) while (a-- > 0) ((void (*)(const char *))core[2])("here");
    else if (sscanf(word, "starts:%ld", &a) == 1) while (a-- > 0) ((uint64_t(*)(const char *))core[5])("endless");
    else if (sscanf(word, "kernels:%ld", &a) == 1) kernels((int)a);
    else if (!strcmp(word, "context")) make_context();
    else if (!strcmp(word, "others")) others();
    else if (!strcmp(word, "unfinished")) unfinished();
    else if (sscanf(word, "node:%ld,%ld", &a, &b) == 2) make_node((uint64_t)a, (uint64_t)b, (uint32_t)(a >> 32));
    else if (sscanf(word, "graphkernel:%ld", &a) == 1) kernel("gemm_kernel", (uint64_t)a, (uint32_t)(a >> 32));
    else if (sscanf(word, "steps:%ld,%ld,%ld", &a, &b, &c) == 3)
        while (another(&a)) { push("decode_step"); kernels((int)b); rest((int)c); pop(); }
    else if (sscanf(word, "layers:%ld,%ld,%ld", &a, &b, &c) == 3) layers(a, b, c);
    else if (sscanf(word, "loop:%ld,%ld,%ld", &a, &b, &c) == 3) loop(a, b, c);
    else if (sscanf(word, "parts:%ld,%ld,%ld", &a, &b, &c) == 3) parts(a, b, c);
    else if (sscanf(word, "crowd:%ld,%ld,%ld", &a, &b, &c) == 3) {
        pthread_t threads[16];
        long numbers[2] = {b, c};
        for (int i = 0; i < a; i++) pthread_create(&threads[i], NULL, in_crowd, numbers);
        for (int i = 0; i < a; i++) pthread_join(threads[i], NULL);
    } else if (sscanf(word, "replay:%ld,%ld,%ld", &a, &b, &c) == 3)
        while (another(&a)) { push("decode_step"); kernel("gemm_kernel", (uint64_t)b, (uint32_t)(b >> 32)); wait_for_device(); rest((int)c); pop(); }
    else if (sscanf(word, "until:%ld,%ld", &a, &b) == 2) { wanted_left = (uint32_t)a; wanted_started = started() + (uint32_t)b; }
    else if (sscanf(word, "leave:%ld", &a) == 1)
        while (a-- > 0 && !finalized()) { wait_for_device(); rest(1); }
    else if (!strcmp(word, "finalized")) { printf("finalized %u\n", finalized()); fflush(stdout); }
    else if (sscanf(word, "sleep:%ld", &a) == 1) rest((int)a);
    else if (!strncmp(word, "thread:", 7)) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, (void *)value);
        pthread_join(thread, NULL);
    } else if (sscanf(word, "fork:%ld", &a) == 1) {
        pid_t child = fork();
        if (child == 0) {
            push("child");
            if (a) { start_cuda(); kernels(3); }
            pop();
            exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status) _exit(99);
    } else if (!strcmp(word, "spawn")) {
        pid_t child = fork();
        if (child == 0) { execl(self[0], self[0], "nvtx", "cuda", "kernels:5", (char *)NULL); _exit(98); }
        int status = 0;
        waitpid(child, &status, 0);
        if (status) _exit(97);
    } else if (!strcmp(word, "become")) execl(self[0], self[0], "nvtx", "cuda", "kernels:4", (char *)NULL);
    else if (sscanf(word, "takeall:%ld", &a) == 1) take_all(strchr(value, ',') + 1, (int)a);
    else if (!strcmp(word, "forked")) {
        pid_t child = fork();
        if (child == 0) _exit(are_all_open() ? 0 : 1);
        int status = 0;
        waitpid(child, &status, 0);
        printf("%s\n", status == 0 && are_all_open() ? "all open" : "closed");
        fflush(stdout);
    }
    else if (!strcmp(word, "kill")) kill(getpid(), SIGKILL);
    else if (!strcmp(word, "quick")) _exit(0);
    else if (!strcmp(word, "crash")) *(volatile int *)NULL = 1;
    else if (sscanf(word, "filesize:%ld", &a) == 1) { struct rlimit limit = {(rlim_t)a, (rlim_t)a}; setrlimit(RLIMIT_FSIZE, &limit); }
    else if (!strcmp(word, "full")) wait_until_full();
    else if (!strncmp(word, "print:", 6)) { puts(value); fflush(stdout); }
    else if (sscanf(word, "exit:%ld", &a) == 1) exit((int)a);
    else { fprintf(stderr, "unknown word %s\n", word); exit(96); }
}
int main(int count, char **words) {
    for (int i = 1; i < count; i++) act(words[i], words);
    return 0;
}
