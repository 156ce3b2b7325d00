/* Counts the calls that change files below a folder, and ends the process at one of them, or lets it and all later ones
 * fail. Loaded before libc (LD_PRELOAD), it sees the calls of Python and of the engines; what is not armed only passes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNTS, ENDS, ENDS_HALFWAY, FAILS };
enum { GROWS = 1 }; /* what a full disk refuses; a folder that cannot be written refuses all */

static char below[PATH_MAX];
static size_t length;
static int way, error_number;
static long at;
static atomic_long *counted; /* of the parent, who reads it when this process has ended */
static atomic_long own;

void kerneldb_arm(const char *folder, long number, int how, int error, void *shared) {
    snprintf(below, sizeof below, "%s", folder);
    at = number;
    way = how;
    error_number = error;
    counted = shared ? shared : &own;
    length = strlen(below);
}

static int inside(const char *path) {
    char whole[2 * PATH_MAX];
    if (!length || !path) return 0;
    if (path[0] != '/') {
        if (!getcwd(whole, PATH_MAX)) return 0;
        strncat(whole, "/", 2);
        strncat(whole, path, PATH_MAX - 1);
        path = whole;
    }
    return !strncmp(path, below, length);
}

static int of_ours(int fd) {
    char link[64], path[PATH_MAX];
    if (!length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return inside(path);
}

static int below_of(int dirfd, const char *path) {
    return path && path[0] != '/' && dirfd != AT_FDCWD ? of_ours(dirfd) : inside(path);
}

/* Whether the call is to fail. Does not return where the process ends at it. `half` is what is done of it then. */
static int refused(int grows) {
    long number = atomic_fetch_add(counted, 1) + 1;
    if (way == ENDS && number == at) kill(getpid(), SIGKILL);
    if (way == FAILS && number >= at && (grows || error_number != ENOSPC)) {
        errno = error_number;
        return 1;
    }
    return 0;
}

static int halfway(void) { return way == ENDS_HALFWAY && atomic_load(counted) == at; }

/* DuckDB writes blocks of its metadata in place. One of which half is written makes the file unreadable, and nothing that
 * calls DuckDB can help that, so its blocks are written whole or not at all here: see docs/robustness.md.
 */
static int is_block(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    return n > 7 && !strncmp(path + n - 7, ".duckdb", 7);
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define CHANGING(grows, ours, result, name, parameters, arguments) \
    result name parameters { \
        NEXT(name); \
        if (!(ours)) return next arguments; \
        if (refused(grows)) return -1; \
        result done = next arguments; \
        if (halfway()) kill(getpid(), SIGKILL); \
        return done; \
    }

#define WRITING(result, name, whole, parameters, arguments, half) \
    result name parameters { \
        NEXT(name); \
        if (!of_ours(fd)) return next arguments; \
        if (refused(GROWS)) return -1; \
        if (halfway()) { \
            (void)!((whole) ? next arguments : next half); \
            kill(getpid(), SIGKILL); \
        } \
        return next arguments; \
    }

WRITING(ssize_t, write, 0, (int fd, const void *data, size_t n), (fd, data, n), (fd, data, n / 2))
WRITING(ssize_t, pwrite, is_block(fd), (int fd, const void *data, size_t n, off_t to), (fd, data, n, to),
        (fd, data, n / 2, to))
WRITING(ssize_t, pwrite64, is_block(fd), (int fd, const void *data, size_t n, off64_t to), (fd, data, n, to),
        (fd, data, n / 2, to))
WRITING(ssize_t, writev, 0, (int fd, const struct iovec *parts, int n), (fd, parts, n), (fd, parts, n / 2))
CHANGING(GROWS, of_ours(out), ssize_t, sendfile, (int out, int in, off_t *from, size_t n), (out, in, from, n))
CHANGING(GROWS, of_ours(out), ssize_t, copy_file_range,
         (int in, off64_t *from, int out, off64_t *to, size_t n, unsigned flags), (in, from, out, to, n, flags))
CHANGING(0, of_ours(fd), int, fsync, (int fd), (fd))
CHANGING(0, of_ours(fd), int, fdatasync, (int fd), (fd))
CHANGING(GROWS, of_ours(fd), int, ftruncate, (int fd, off_t size), (fd, size))
CHANGING(GROWS, of_ours(fd), int, ftruncate64, (int fd, off64_t size), (fd, size))
CHANGING(GROWS, of_ours(fd), int, fallocate, (int fd, int mode, off_t from, off_t n), (fd, mode, from, n))
CHANGING(GROWS, of_ours(fd), int, fallocate64, (int fd, int mode, off64_t from, off64_t n), (fd, mode, from, n))
CHANGING(0, inside(to), int, rename, (const char *from, const char *to), (from, to))
CHANGING(0, below_of(there, to), int, renameat, (int here, const char *from, int there, const char *to),
         (here, from, there, to))
CHANGING(GROWS, inside(to), int, link, (const char *from, const char *to), (from, to))
CHANGING(GROWS, below_of(there, to), int, linkat, (int here, const char *from, int there, const char *to, int flags),
         (here, from, there, to, flags))
CHANGING(0, inside(path), int, unlink, (const char *path), (path))
CHANGING(0, below_of(folder, path), int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
CHANGING(0, inside(path), int, rmdir, (const char *path), (path))
CHANGING(GROWS, inside(path), int, mkdir, (const char *path, mode_t mode), (path, mode))

/* Opening changes files where it makes one, or empties one. */
static int makes(int folder, const char *path, int flags) {
    if (!below_of(folder, path)) return 0;
    return flags & O_TRUNC || (flags & O_CREAT && faccessat(folder, path, F_OK, 0));
}

#define OPENING(name, head, folder, arguments) \
    int name head { \
        NEXT(name); \
        mode_t mode = 0; \
        if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
            va_list list; \
            va_start(list, flags); \
            mode = va_arg(list, mode_t); \
            va_end(list); \
        } \
        int saved = errno, changes = makes(folder, path, flags); \
        errno = saved; \
        if (!changes) return next arguments; \
        if (refused(GROWS)) return -1; \
        int done = next arguments; \
        if (halfway()) kill(getpid(), SIGKILL); \
        return done; \
    }

OPENING(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENING(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENING(openat, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode))
OPENING(openat64, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode))
