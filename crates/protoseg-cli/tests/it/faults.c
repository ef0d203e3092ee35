// A disk that is full from the n-th call on: creating files and folders, and `write` and `fsync` of regular files, fail with
// ENOSPC. Renaming goes past the C library and never fails. Loaded into the binary by `faults.rs` (LD_PRELOAD); n is in
// PROTOSEG_FAULT_AT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
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

static int is_there(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
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

int mkdir(const char *path, mode_t mode) {
    static int (*real)(const char *, mode_t);
    if (!real) real = dlsym(RTLD_NEXT, "mkdir");
    if (!is_there(path) && is_full()) return -1;
    return real(path, mode);
}

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    if (!real) real = dlsym(RTLD_NEXT, "open64");
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
        if (!is_there(path) && is_full()) return -1;
    }
    return real(path, flags, mode);
}
