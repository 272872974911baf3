/* Stands in for AMD's management library: two GPUs on two sockets whose numbers are known in closed form. */
#include <stdint.h>
#include <string.h>
#include <time.h>

static int sockets[2] = {0, 1}, processors[2] = {0, 1};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

uint32_t amdsmi_init(uint64_t flags) { return flags == 2 ? 0 : 1; }
uint32_t amdsmi_shut_down(void) { return 0; }

uint32_t amdsmi_get_socket_handles(uint32_t *count, void **handles) {
    if (*count < 2) return 1;
    *count = 2;
    handles[0] = &sockets[0];
    handles[1] = &sockets[1];
    return 0;
}

uint32_t amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    *count = 1;
    handles[0] = &processors[*(int *)socket];
    return 0;
}

uint32_t amdsmi_get_gpu_asic_info(void *gpu, char *info) {
    strcpy(info, "AMD Instinct MI300X");
    memset(info + 256, 0xff, 256);
    return 0;
}

uint32_t amdsmi_get_gpu_activity(void *gpu, uint32_t *usage) {
    memset(usage, 0xff, 64);
    usage[0] = *(int *)gpu == 0 ? 75 : UINT16_MAX;
    usage[1] = 20;
    return 0;
}

uint32_t amdsmi_get_clock_info(void *gpu, uint32_t kind, uint32_t *info) {
    if (kind != 0 && kind != 4) return 2;
    info[0] = kind == 0 ? 2100 : 1300;
    return 0;
}

uint32_t amdsmi_get_temp_metric(void *gpu, uint32_t sensor, uint32_t metric, int64_t *value) {
    if (metric != 0) return 1;
    *value = sensor == 1 ? 61 : 55;
    return *(int *)gpu == 0 ? 0 : 2;
}

uint32_t amdsmi_get_gpu_memory_usage(void *gpu, uint32_t kind, uint64_t *value) {
    *value = 3ull << 30;
    return kind == 0 ? 0 : 1;
}

uint32_t amdsmi_get_gpu_memory_total(void *gpu, uint32_t kind, uint64_t *value) {
    *value = 192ull << 30;
    return kind == 0 ? 0 : 1;
}

/* 500 W, in steps of 15.3 uJ. */
uint32_t amdsmi_get_energy_count(void *gpu, uint64_t *steps, float *resolution, uint64_t *time) {
    *resolution = 15.3f;
    *steps = (uint64_t)(500.0 * seconds() / 15.3e-6);
    *time = (uint64_t)(1e9 * seconds());
    return 0;
}
