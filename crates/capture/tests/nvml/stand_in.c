/* A stand-in for libnvidia-ml.so.1: two GPUs whose counters advance by a known step with every call.
 *
 * INIT_FAILS    no driver answers.
 * NO_DEVICES    a driver without GPUs.
 * BARE          a GPU that answers its name alone: all else is NOT_SUPPORTED.
 * NO_ENERGY     no energy counter; power is constant.
 * NO_GPM        an older GPU: PCIe by the blocking call, no NVLink.
 * ENERGY_RESET  the energy counter goes back at its fourth reading.
 * NO_PERMISSION power limits may be read, not set.
 * SAME_GPUS     both GPUs have one name.
 *
 * Power limits outlive the process: they are lines `GPU MILLIWATTS` of a file named as the library is, with `.limits`.
 *
 * When it is shut down it writes beside itself, to a file named as it is with `.calls`, how often GPUs were asked for what.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int result;
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION_FOR = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };

struct gpu { int index; unsigned reads; };
static struct gpu gpus[2] = {{0, 0}, {1, 0}};
typedef struct gpu *device;

struct question { int gpu; const char *call; unsigned detail, count; };
static struct question questions[256];
static unsigned asked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void count(device gpu, const char *call, unsigned detail) {
    pthread_mutex_lock(&lock);
    unsigned i = 0;
    while (i < asked && (questions[i].gpu != gpu->index || questions[i].detail != detail || strcmp(questions[i].call, call))) i++;
    if (i == asked && asked < 256) questions[asked++] = (struct question){gpu->index, call, detail, 0};
    if (i < asked) questions[i].count++;
    pthread_mutex_unlock(&lock);
}

#ifdef BARE
#define OFFERED_AS(detail) do { count(gpu, __func__, detail); return NOT_SUPPORTED; } while (0)
#else
#define OFFERED_AS(detail) count(gpu, __func__, detail)
#endif
#define OFFERED OFFERED_AS(0)

result nvmlInit_v2(void) {
#ifdef INIT_FAILS
    return DRIVER_NOT_LOADED;
#else
    return SUCCESS;
#endif
}
result nvmlShutdown(void) {
    Dl_info here;
    char path[4096];
    if (!dladdr(questions, &here) || snprintf(path, sizeof path, "%s.calls", here.dli_fname) >= (int)sizeof path) return SUCCESS;
    FILE *file = fopen(path, "w");
    if (!file) return SUCCESS;
    for (unsigned i = 0; i < asked; i++)
        fprintf(file, "%d %s %u %u\n", questions[i].gpu, questions[i].call, questions[i].detail, questions[i].count);
    fclose(file);
    return SUCCESS;
}

static result text(const char *from, char *to, unsigned length) {
    if (strlen(from) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return SUCCESS;
}
result nvmlSystemGetDriverVersion(char *to, unsigned length) { return text("580.159.04", to, length); }
result nvmlSystemGetNVMLVersion(char *to, unsigned length) { return text("13.580.159.04", to, length); }
result nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }

result nvmlDeviceGetCount_v2(unsigned *count) {
#ifdef NO_DEVICES
    *count = 0;
#else
    *count = 2;
#endif
    return SUCCESS;
}
result nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out) {
    if (index > 1) return INVALID_ARGUMENT;
    *out = &gpus[index];
    return SUCCESS;
}
result nvmlDeviceGetName(device gpu, char *to, unsigned length) {
    count(gpu, __func__, 0);
#ifdef SAME_GPUS
    return text("Stand-in", to, length);
#endif
    return text(gpu->index ? "Stand-in B" : "Stand-in A", to, length);
}
result nvmlDeviceGetUUID(device gpu, char *to, unsigned length) {
    OFFERED;
    return text(gpu->index ? "GPU-bbbb-2" : "GPU-aaaa-1", to, length);
}

static FILE *limits(const char *mode) {
    Dl_info here;
    char path[4096];
    if (!dladdr(questions, &here) || snprintf(path, sizeof path, "%s.limits", here.dli_fname) >= (int)sizeof path) return NULL;
    return fopen(path, mode);
}
static unsigned limit_of(device gpu) {
    unsigned limit = 500000, index, milliwatts;
    FILE *file = limits("r");
    if (!file) return limit;
    while (fscanf(file, "%u %u", &index, &milliwatts) == 2)
        if ((int)index == gpu->index) limit = milliwatts;
    fclose(file);
    return limit;
}
result nvmlDeviceGetPowerManagementLimit(device gpu, unsigned *milliwatts) {
    OFFERED; *milliwatts = limit_of(gpu); return SUCCESS;
}
result nvmlDeviceGetPowerManagementLimitConstraints(device gpu, unsigned *low, unsigned *high) {
    OFFERED; *low = 200000; *high = 700000; return SUCCESS;
}
result nvmlDeviceSetPowerManagementLimit(device gpu, unsigned milliwatts) {
    OFFERED;
#ifdef NO_PERMISSION
    return NO_PERMISSION_FOR;
#endif
    FILE *file = limits("a");
    if (!file) return NOT_FOUND;
    fprintf(file, "%d %u\n", gpu->index, milliwatts);
    fclose(file);
    return SUCCESS;
}

/* GPU 0 takes 1.5 J from reading to reading, GPU 1 twice as much. */
result nvmlDeviceGetTotalEnergyConsumption(device gpu, unsigned long long *millijoules) {
    OFFERED;
#ifdef NO_ENERGY
    return NOT_SUPPORTED;
#endif
    unsigned read = gpu->reads++;
#ifdef ENERGY_RESET
    if (read >= 3) read -= 3;
#endif
    *millijoules = 1000000 + 1500ull * (gpu->index + 1) * read;
    return SUCCESS;
}
result nvmlDeviceGetPowerUsage(device gpu, unsigned *milliwatts) {
    OFFERED; *milliwatts = 250000 + 100000 * gpu->index; return SUCCESS;
}
result nvmlDeviceGetUtilizationRates(device gpu, unsigned rates[2]) {
    OFFERED; rates[0] = 70 + gpu->index; rates[1] = 30; return SUCCESS;
}
result nvmlDeviceGetClockInfo(device gpu, unsigned clock, unsigned *megahertz) {
    OFFERED_AS(clock); *megahertz = clock == 2 ? 3201 : 1980 - 500 * gpu->index; return SUCCESS;
}
result nvmlDeviceGetMaxClockInfo(device gpu, unsigned clock, unsigned *megahertz) {
    OFFERED; *megahertz = clock == 2 ? 3201 : 1980; return SUCCESS;
}
result nvmlDeviceGetTemperature(device gpu, unsigned sensor, unsigned *celsius) {
    OFFERED; *celsius = 37 + gpu->index; return SUCCESS;
}
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
result nvmlDeviceGetMemoryInfo_v2(device gpu, struct memory *info) {
    OFFERED;
    info->total = 143771ull << 20;
    info->reserved = 616ull << 20;
    info->used = 2565ull << 20;
    info->free = info->total - info->reserved - info->used;
    return SUCCESS;
}
/* GPU 1 is held back by its power limit and by heat. */
result nvmlDeviceGetCurrentClocksThrottleReasons(device gpu, unsigned long long *mask) {
    OFFERED; *mask = gpu->index ? 0x24 : 0x1; return SUCCESS;
}
result nvmlDeviceGetPerformanceState(device gpu, unsigned *state) {
    OFFERED; *state = gpu->index ? 32 : 0; return SUCCESS;
}

struct process_share { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };
/* This process, a process that nobody is, one entry that is no process and one that is beyond the whole. */
result nvmlDeviceGetProcessUtilization(device gpu, struct process_share *shares, unsigned *length, unsigned long long since) {
    OFFERED;
    if (gpu->index) return NOT_FOUND;
    if (!shares) { *length = 5; return INSUFFICIENT_SIZE; }
    memset(shares, 0, 5 * sizeof *shares);
    unsigned self = getpid();
    shares[0] = (struct process_share){self, since + 100, 10};
    shares[1] = (struct process_share){self, since + 200, 60};
    shares[2] = (struct process_share){4000000001u, since + 200, 8};
    shares[3] = (struct process_share){0, since + 200, 50};
    shares[4] = (struct process_share){4000000002u, since + 200, 4294967};
    *length = 5;
    return SUCCESS;
}
struct process_memory { unsigned pid; unsigned long long bytes; unsigned instance, compute_instance; };
result nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *length, struct process_memory *all) {
    OFFERED;
    if (gpu->index) { *length = 0; return SUCCESS; }
    if (*length < 2) { *length = 2; return INSUFFICIENT_SIZE; }
    all[0] = (struct process_memory){getpid(), 1ull << 30};
    all[1] = (struct process_memory){4000000001u, 1ull << 20};
    *length = 2;
    return SUCCESS;
}

struct field { unsigned id, scope; long long time, latency; unsigned type; result status; union { double d; unsigned u; unsigned long long ull; } value; };
result nvmlDeviceGetFieldValues(device gpu, int wanted, struct field *fields) {
    OFFERED_AS(fields[0].id);
    for (int i = 0; i < wanted; i++) {
        fields[i].status = SUCCESS;
        fields[i].type = 1;
        if (fields[i].id == 186) fields[i].value.u = 249500;
        else if (fields[i].id == 82) fields[i].value.u = 41;
        else fields[i].status = NOT_SUPPORTED;
    }
    return SUCCESS;
}

#ifndef NO_GPM
struct support { unsigned version, supported; };
result nvmlGpmQueryDeviceSupport(device gpu, struct support *support) { OFFERED; support->supported = 1; return SUCCESS; }
static int samples[64];
static int taken;
result nvmlGpmSampleAlloc(int **sample) { *sample = &samples[taken++ % 64]; return SUCCESS; }
result nvmlGpmSampleFree(int *sample) { return SUCCESS; }
result nvmlGpmSampleGet(device gpu, int *sample) { OFFERED; *sample = gpu->index; return SUCCESS; }
struct metric { unsigned id; result status; double value; struct { char *short_name, *long_name, *unit; } info; };
struct metrics { unsigned version, count; int *first, *second; struct metric all[210]; };
result nvmlGpmMetricsGet(struct metrics *metrics) {
    for (unsigned i = 0; i < metrics->count; i++) {
        struct metric *metric = &metrics->all[i];
        metric->info.short_name = metric->info.long_name = metric->info.unit = "";
        metric->status = SUCCESS;
        switch (metric->id) {
        case 20: metric->value = 2; break;
        case 21: metric->value = 3; break;
        case 60: metric->value = 5; break;
        case 61: metric->value = 4; break;
        default: metric->status = NOT_SUPPORTED;
        }
    }
    return SUCCESS;
}
#endif
result nvmlDeviceGetPcieThroughput(device gpu, unsigned counter, unsigned *kilobytes) {
    OFFERED; *kilobytes = counter == 0 ? 1150 : 569; return SUCCESS;
}

struct pci { char legacy[16]; unsigned domain, bus, slot, id, subsystem; char bus_id[32]; };
result nvmlDeviceGetPciInfo_v3(device gpu, struct pci *info) {
    OFFERED; memset(info, 0, sizeof *info); sprintf(info->bus_id, "00000000:0%d:06.0", gpu->index); return SUCCESS;
}
result nvmlDeviceGetArchitecture(device gpu, unsigned *architecture) { OFFERED; *architecture = 9; return SUCCESS; }
result nvmlDeviceGetCudaComputeCapability(device gpu, int *major, int *minor) { OFFERED; *major = 9; *minor = 0; return SUCCESS; }
result nvmlDeviceGetEnforcedPowerLimit(device gpu, unsigned *milliwatts) { OFFERED; *milliwatts = limit_of(gpu); return SUCCESS; }
result nvmlDeviceGetPowerManagementDefaultLimit(device gpu, unsigned *milliwatts) { OFFERED; *milliwatts = 700000; return SUCCESS; }
result nvmlDeviceGetCurrPcieLinkGeneration(device gpu, unsigned *value) { OFFERED; *value = 5; return SUCCESS; }
result nvmlDeviceGetCurrPcieLinkWidth(device gpu, unsigned *value) { OFFERED; *value = 16; return SUCCESS; }
result nvmlDeviceGetEccMode(device gpu, unsigned *current, unsigned *pending) { OFFERED; *current = 1; *pending = 0; return SUCCESS; }
result nvmlDeviceGetMigMode(device gpu, unsigned *current, unsigned *pending) { OFFERED; *current = 0; *pending = 1; return SUCCESS; }
result nvmlDeviceGetPersistenceMode(device gpu, unsigned *mode) { OFFERED; *mode = 1; return SUCCESS; }
result nvmlDeviceGetComputeMode(device gpu, unsigned *mode) { OFFERED; *mode = 3; return SUCCESS; }
