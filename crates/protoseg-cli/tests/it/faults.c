// A disk that is full from the n-th call on: `write`, `fsync` and `rename` of regular files fail with ENOSPC.
// Loaded into the binary by `faults.rs` (LD_PRELOAD); n is in PROTOSEG_FAULT_AT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int calls;

static int is_full(void) {
    const char *at = getenv("PROTOSEG_FAULT_AT");
    if (!at || atomic_fetch_add(&calls, 1) + 1 < atoi(at)) return 0;
    errno = ENOSPC;
    return 1;
}

static int is_file(int fd) {
    struct stat about;
    return fd > 2 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (is_file(fd) && is_full()) return -1;
    return real(fd, bytes, count);
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    if (is_file(fd) && is_full()) return -1;
    return real(fd);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "rename");
    if (is_full()) return -1;
    return real(from, to);
}
