// Faults between a process and the kernel: preloaded into what is tested, told by its environment what to do.
//
// FAULTS_RULES    lines of `action call pattern nth [file]`
//   action        die           SIGKILL instead of the call        die-after     SIGKILL when it is done
//                 tear          half of a write, then SIGKILL      short         half of a write, and no fault
//                 full          as a full disk does it: the first write is short, the next ones fail with ENOSPC
//                 EIO ENOSPC EMFILE                                the call fails so, and is not made
//   call          write sync open allocate rename unlink mkdir read send recv
//   pattern       of the path (fnmatch; * matches / too); of a connection `tcp:LOCAL>REMOTE`, the two port numbers
//   nth           3: the third of these calls; 3+: from the third on. Each process counts for itself
//   file          where given, the rule holds and counts only while this file exists
// FAULTS_SHADOW   pattern of the paths that lose at a power cut what was not synced
// FAULTS_LOG      directory, on the same file system, that gets what power.py needs to put them back: `log`, and a hard
//                 link to every file by its inode
// FAULTS_CLOCK    file of 8 bytes: by how many nanoseconds, signed, CLOCK_REALTIME is wrong; it may change at any time
//
// What is not seen: mapped memory, io_uring, the kernel's own calls, system calls made past libc.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define PAGE 4096
#define MAX_RULES 32
#define MAX_PIECES 1024

enum call { WRITE, SYNC, OPEN, ALLOCATE, RENAME, UNLINK, MKDIR, READ, SEND, RECV, CALLS };
enum action { NOTHING, DIE, DIE_AFTER, TEAR, SHORT, FULL, FAIL };
static const char *const CALL_NAMES[] = {"write", "sync",  "open", "allocate", "rename",
                                         "unlink", "mkdir", "read", "send",     "recv"};
static const char *const ACTION_NAMES[] = {"", "die", "die-after", "tear", "short", "full"};

struct rule {
    enum action action;
    enum call call;
    int error, nth, onwards, seen, was_short;
    char pattern[PATH_MAX], file[PATH_MAX];
};

static struct rule rules[MAX_RULES];
static int rule_count, ruled[CALLS];
static const char *shadow_pattern, *shadow_directory;
static int shadow_log = -1;
static volatile int configured;
static const volatile int64_t *clock_file;
static int clock_asked;
static pthread_mutex_t configuring = PTHREAD_MUTEX_INITIALIZER, counting = PTHREAD_MUTEX_INITIALIZER;
// Held over a call and its record, so that the log has them in the order in which they happened.
static pthread_mutex_t shadowing = PTHREAD_MUTEX_INITIALIZER;

// ---------------------------------------------------------------- what to do

static void unusable(const char *line) {
    dprintf(2, "faults: cannot read the rule: %s\n", line);
    _exit(99);
}

static void read_rule(const char *line) {
    struct rule *rule = &rules[rule_count];
    char action[32], call[32], nth[32];
    memset(rule, 0, sizeof *rule);
    if (rule_count == MAX_RULES || sscanf(line, "%31s %31s %4095s %31s %4095s", action, call, rule->pattern, nth, rule->file) < 4)
        unusable(line);
    for (int i = DIE; i <= FULL; i++)
        if (!strcmp(action, ACTION_NAMES[i])) rule->action = i;
    rule->error = !strcmp(action, "EIO") ? EIO : !strcmp(action, "ENOSPC") ? ENOSPC : !strcmp(action, "EMFILE") ? EMFILE : 0;
    if (rule->error) rule->action = FAIL;
    for (rule->call = 0; rule->call < CALLS && strcmp(call, CALL_NAMES[rule->call]);) rule->call++;
    rule->nth = atoi(nth);
    rule->onwards = strchr(nth, '+') != NULL;
    if (!rule->action || rule->call == CALLS || rule->nth < 1) unusable(line);
    ruled[rule->call] = 1;
    rule_count++;
}

static void configure(void) {
    pthread_mutex_lock(&configuring);
    if (!configured) {
        const char *text = getenv("FAULTS_RULES");
        char *lines = strdup(text ? text : ""), *rest = NULL;
        for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) read_rule(line);
        free(lines);
        shadow_pattern = getenv("FAULTS_SHADOW");
        shadow_directory = getenv("FAULTS_LOG");
        if (shadow_pattern && shadow_directory) {
            REAL(open);
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/log", shadow_directory);
            shadow_log = real(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
            if (shadow_log < 0) unusable(path);
        } else {
            shadow_pattern = NULL;
        }
        configured = 1;
    }
    pthread_mutex_unlock(&configuring);
}

// A child reads its environment anew: it may have been forked to become something else.
static void forget(void) {
    if (shadow_log >= 0) close(shadow_log);
    shadow_log = -1;
    rule_count = configured = clock_asked = 0;
    clock_file = NULL;
    memset(ruled, 0, sizeof ruled);
}

__attribute__((constructor)) static void loaded(void) { pthread_atfork(NULL, NULL, forget); }

static int watched(enum call call) {
    if (!configured) configure();
    return ruled[call] || (shadow_pattern && call <= MKDIR);
}

static int shadowed(const char *path) { return shadow_pattern && !fnmatch(shadow_pattern, path, 0); }

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static struct rule *rule_for(enum call call, const char *name) {
    struct rule *found = NULL;
    if (!ruled[call]) return NULL;
    pthread_mutex_lock(&counting);
    for (int i = 0; i < rule_count && !found; i++) {
        struct rule *rule = &rules[i];
        if (rule->call != call || fnmatch(rule->pattern, name, 0)) continue;
        if (rule->file[0] && access(rule->file, F_OK)) {
            rule->was_short = 0;
            continue;
        }
        rule->seen++;
        if (rule->seen == rule->nth || (rule->onwards && rule->seen > rule->nth)) found = rule;
    }
    pthread_mutex_unlock(&counting);
    return found;
}

// Before a call that writes nothing. -1: it fails, errno is set. *after: it was its last.
static int enter(enum call call, const char *name, int *after) {
    struct rule *rule = rule_for(call, name);
    *after = rule && (rule->action == DIE_AFTER || rule->action == TEAR);
    if (!rule || *after) return 0;
    if (rule->action == DIE) die();
    if (rule->action == SHORT || (rule->action == FULL && call != ALLOCATE && call != OPEN && call != MKDIR)) return 0;
    errno = rule->action == FULL ? ENOSPC : rule->error;
    return -1;
}

// ---------------------------------------------------------------- names

static int port_of(int fd, int (*ask)(int, struct sockaddr *, socklen_t *)) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (ask(fd, (struct sockaddr *)&address, &size)) return 0;
    if (address.ss_family == AF_INET) return ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}

// Path of a file, `tcp:LOCAL>REMOTE` of a connection. Whether it is a connection.
static int name_of(int fd, char *name) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, name, PATH_MAX - 1);
    name[size < 0 ? 0 : size] = 0;
    if (strncmp(name, "socket:", 7)) return 0;
    snprintf(name, PATH_MAX, "tcp:%d>%d", port_of(fd, getsockname), port_of(fd, getpeername));
    return 1;
}

static void absolute(int directory, const char *path, char *out) {
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        if (directory == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) base[0] = 0;
        } else {
            name_of(directory, base);
        }
    }
    if (snprintf(out, PATH_MAX, "%s%s%s", base, base[0] ? "/" : "", path) >= PATH_MAX) out[0] = 0;
}

// ---------------------------------------------------------------- what a power cut would undo

struct record {  // and after it the path, or the two of a rename, each with its 0; then `data_size` bytes of old content
    char kind;   // W write, S sync, F failed sync, C create, U unlink, R rename, M mkdir, X rmdir, D directory synced
    char unused[7];
    uint64_t inode, other;          // of a rename: the file that was there before, or 0
    int64_t offset, length, size;   // whole pages; the file's size before
    uint64_t path_size, data_size;
};

static void record(struct record entry, const char *path, size_t path_size, const void *data) {
    REAL(writev);
    entry.path_size = path_size;
    struct iovec pieces[] = {{&entry, sizeof entry}, {(void *)path, path_size}, {(void *)data, entry.data_size}};
    ssize_t whole = sizeof entry + path_size + entry.data_size;
    if (real(shadow_log, pieces, 3) != whole) {
        dprintf(2, "faults: cannot write the log\n");
        _exit(99);
    }
}

static void keep(const char *path, ino_t inode) {
    char kept[PATH_MAX];
    snprintf(kept, sizeof kept, "%s/%lu", shadow_directory, (unsigned long)inode);
    linkat(AT_FDCWD, path, AT_FDCWD, kept, AT_SYMLINK_FOLLOW);  // EEXIST: it is kept already
}

// Before a change of [offset, offset + length): the old content of its pages.
static void record_change(int fd, int64_t offset, int64_t length) {
    struct stat status;
    char link[64];
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    keep(link, status.st_ino);
    int64_t begin = offset / PAGE * PAGE, end = (offset + length + PAGE - 1) / PAGE * PAGE;
    int64_t there = (status.st_size < end ? status.st_size : end) - begin;
    char *old = there > 0 ? malloc(there) : NULL;
    if (old) {
        static ssize_t (*read_at)(int, void *, size_t, off_t);
        if (!read_at) read_at = dlsym(RTLD_NEXT, "pread64");
        char own[PATH_MAX];  // fd may be open for writing alone
        snprintf(own, sizeof own, "%s/%lu", shadow_directory, (unsigned long)status.st_ino);
        REAL(open);
        int reader = real(own, O_RDONLY | O_CLOEXEC);
        there = read_at(reader, old, there, begin);
        close(reader);
    }
    struct record entry = {.kind = 'W', .inode = status.st_ino, .offset = begin, .length = end - begin, .size = status.st_size};
    entry.data_size = old && there > 0 ? there : 0;
    record(entry, "", 0, old);
    free(old);
}

static void record_sync(int fd, const char *name, int result) {
    struct stat status;
    int error = errno;
    if (!fstat(fd, &status)) {
        struct record entry = {.kind = result ? 'F' : S_ISDIR(status.st_mode) ? 'D' : 'S', .inode = status.st_ino};
        if (entry.kind == 'D') record(entry, name, strlen(name) + 1, NULL);
        else if (S_ISREG(status.st_mode)) record(entry, "", 0, NULL);
    }
    errno = error;
}

static void record_name(char kind, const char *path, ino_t inode) {
    record((struct record){.kind = kind, .inode = inode}, path, strlen(path) + 1, NULL);
}

// ---------------------------------------------------------------- writes

static ssize_t half_of(const struct iovec *pieces, int count, struct iovec *out, int *out_count) {
    size_t whole = 0, left;
    for (int i = 0; i < count; i++) whole += pieces[i].iov_len;
    left = whole / 2;
    for (*out_count = 0; *out_count < count && left; ++*out_count) {
        out[*out_count] = pieces[*out_count];
        if (out[*out_count].iov_len > left) out[*out_count].iov_len = left;
        left -= out[*out_count].iov_len;
    }
    return whole;
}

static ssize_t write_through(int fd, const struct iovec *pieces, int count, off_t offset, int flags) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    if (!real) real = dlsym(RTLD_NEXT, "pwritev2");  // offset -1: where the file stands
    return real(fd, pieces, count, offset, flags);
}

static ssize_t write_pieces(int fd, const struct iovec *pieces, int count, off_t offset, int flags) {
    char name[PATH_MAX];
    struct iovec fewer[MAX_PIECES];
    int is_socket = name_of(fd, name), error;
    struct rule *rule = rule_for(is_socket ? SEND : WRITE, name);
    enum action action = rule ? rule->action : NOTHING;
    if (action == DIE) die();
    if (action == FULL && !rule->was_short) {
        rule->was_short = 1;
        action = SHORT;
    }
    if (action == FULL || action == FAIL) {
        errno = action == FULL ? ENOSPC : rule->error;
        return -1;
    }
    size_t whole = 0;
    if (action == TEAR || action == SHORT) {
        whole = half_of(pieces, count, fewer, &count);
        pieces = fewer;
    }
    int shadow = !is_socket && shadowed(name);
    if (shadow) {
        int64_t length = 0, at = offset;
        struct stat status;
        for (int i = 0; i < count; i++) length += pieces[i].iov_len;
        pthread_mutex_lock(&shadowing);
        if (offset < 0) at = fcntl(fd, F_GETFL) & O_APPEND && !fstat(fd, &status) ? status.st_size : lseek(fd, 0, SEEK_CUR);
        record_change(fd, at, length);
    }
    ssize_t written = count || !whole ? write_through(fd, pieces, count, offset, flags) : 0;
    error = errno;
    if (shadow) pthread_mutex_unlock(&shadowing);
    if (action == TEAR || action == DIE_AFTER) die();
    errno = error;
    return written;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    if (!watched(WRITE) && !watched(SEND)) return real(fd, data, size);
    return write_pieces(fd, &(struct iovec){(void *)data, size}, 1, -1, 0);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    REAL(writev);
    if (!watched(WRITE) && !watched(SEND)) return real(fd, pieces, count);
    return write_pieces(fd, pieces, count, -1, 0);
}

#define PWRITE(name) \
    ssize_t name(int fd, const void *data, size_t size, off_t offset) { \
        REAL(name); \
        if (!watched(WRITE)) return real(fd, data, size, offset); \
        return write_pieces(fd, &(struct iovec){(void *)data, size}, 1, offset, 0); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PWRITEV(name) \
    ssize_t name(int fd, const struct iovec *pieces, int count, off_t offset) { \
        REAL(name); \
        if (!watched(WRITE)) return real(fd, pieces, count, offset); \
        return write_pieces(fd, pieces, count, offset, 0); \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

#define PWRITEV2(name) \
    ssize_t name(int fd, const struct iovec *pieces, int count, off_t offset, int flags) { \
        REAL(name); \
        if (!watched(WRITE)) return real(fd, pieces, count, offset, flags); \
        return write_pieces(fd, pieces, count, offset, flags); \
    }
PWRITEV2(pwritev2)
PWRITEV2(pwritev64v2)

// Between files without a buffer: refused where it would pass the layer by; callers then copy themselves.
#define SENDFILE(name) \
    ssize_t name(int out, int in, off_t *offset, size_t size) { \
        char path[PATH_MAX]; \
        REAL(name); \
        if (!watched(WRITE) || name_of(out, path)) return real(out, in, offset, size); \
        errno = EINVAL; \
        return -1; \
    }
ssize_t sendfile(int out, int in, off_t *offset, size_t size);
ssize_t sendfile64(int out, int in, off_t *offset, size_t size);
SENDFILE(sendfile)
SENDFILE(sendfile64)

// ---------------------------------------------------------------- sizes

static int resize(int fd, off_t offset, off_t length, int (*call)(int, off_t, off_t)) {
    char name[PATH_MAX];
    int after, result, error;
    name_of(fd, name);
    if (enter(ALLOCATE, name, &after)) return -1;
    int shadow = shadowed(name);
    if (shadow) {
        struct stat status;
        pthread_mutex_lock(&shadowing);
        // What a truncation cuts off is old content too.
        int64_t end = offset + length;
        if (!fstat(fd, &status)) {
            int64_t from = status.st_size < end ? status.st_size : end, to = status.st_size < end ? end : status.st_size;
            record_change(fd, from, to - from);
        }
    }
    result = call(fd, offset, length);
    error = errno;
    if (shadow) pthread_mutex_unlock(&shadowing);
    if (after) die();
    errno = error;
    return result;
}

static int truncate_to(int fd, off_t offset, off_t length) {
    REAL(ftruncate);
    return real(fd, offset + length);
}

static int allocate_to(int fd, off_t offset, off_t length) {
    REAL(posix_fallocate);
    return real(fd, offset, length);
}

int ftruncate(int fd, off_t size) { return watched(ALLOCATE) ? resize(fd, 0, size, truncate_to) : truncate_to(fd, 0, size); }
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int posix_fallocate(int fd, off_t offset, off_t size) {
    if (!watched(ALLOCATE)) return allocate_to(fd, offset, size);
    return resize(fd, offset, size, allocate_to) < 0 ? errno : 0;  // it gives its error, and leaves errno alone
}
int posix_fallocate64(int fd, off_t offset, off_t size) { return posix_fallocate(fd, offset, size); }

// ---------------------------------------------------------------- syncs

static int sync_file(int fd, int (*real)(int)) {
    char name[PATH_MAX];
    int after, result, error;
    if (!watched(SYNC)) return real(fd);
    name_of(fd, name);
    struct stat status;  // of a directory above them too: it has the name of the first
    int shadow = shadowed(name) || (shadow_pattern && !fstat(fd, &status) && S_ISDIR(status.st_mode));
    int refused = enter(SYNC, name, &after);
    if (shadow) pthread_mutex_lock(&shadowing);
    error = errno;
    result = refused ? -1 : real(fd);
    if (!refused) error = errno;
    if (shadow) {
        record_sync(fd, name, result);
        pthread_mutex_unlock(&shadowing);
    }
    if (after) die();
    errno = error;
    return result;
}

int fsync(int fd) {
    REAL(fsync);
    return sync_file(fd, real);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return sync_file(fd, real);
}

// ---------------------------------------------------------------- names of files

static int open_path(int directory, const char *path, int flags, mode_t mode) {
    REAL(openat);
    char name[PATH_MAX];
    int after, fd, error;
    if (!watched(OPEN)) return real(directory, path, flags, mode);
    absolute(directory, path, name);
    if (enter(OPEN, name, &after)) return -1;
    int shadow = shadowed(name) && (flags & (O_CREAT | O_TRUNC));
    int existed = shadow && !access(name, F_OK);
    if (shadow) pthread_mutex_lock(&shadowing);
    fd = real(directory, path, existed ? flags & ~O_TRUNC : flags, mode);
    error = errno;
    if (shadow && fd >= 0) {
        struct stat status;
        if (existed && flags & O_TRUNC && !fstat(fd, &status)) {
            record_change(fd, 0, status.st_size);
            truncate_to(fd, 0, 0);
        } else if (!existed && !fstat(fd, &status)) {
            keep(name, status.st_ino);
            record_name('C', name, status.st_ino);
        }
    }
    if (shadow) pthread_mutex_unlock(&shadowing);
    if (after) die();
    errno = error;
    return fd;
}

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, last); \
        mode = va_arg(more, int); \
        va_end(more); \
    }
int open(const char *path, int flags, ...) { MODE(flags) return open_path(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_path(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_path(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_path(at, path, flags | O_LARGEFILE, mode); }

static ino_t kept_inode(const char *path) {
    struct stat status;
    if (lstat(path, &status)) return 0;
    if (S_ISREG(status.st_mode)) keep(path, status.st_ino);
    return status.st_ino;
}

int renameat(int from, const char *old, int to, const char *new) {
    REAL(renameat);
    char names[2 * PATH_MAX], target[PATH_MAX];
    int after, result, error;
    if (!watched(RENAME)) return real(from, old, to, new);
    absolute(from, old, names);
    absolute(to, new, target);
    if (enter(RENAME, target, &after)) return -1;
    int shadow = shadowed(names) || shadowed(target);
    struct record entry = {.kind = 'R'};
    if (shadow) {
        pthread_mutex_lock(&shadowing);
        entry.inode = kept_inode(names);
        entry.other = kept_inode(target);
    }
    result = real(from, old, to, new);
    error = errno;
    if (shadow) {
        size_t first = strlen(names) + 1;
        memcpy(names + first, target, strlen(target) + 1);
        if (!result) record(entry, names, first + strlen(target) + 1, NULL);
        pthread_mutex_unlock(&shadowing);
    }
    if (after) die();
    errno = error;
    return result;
}
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int unlinkat(int at, const char *path, int flags) {
    REAL(unlinkat);
    char name[PATH_MAX];
    int after, result, error;
    ino_t inode = 0;
    if (!watched(UNLINK)) return real(at, path, flags);
    absolute(at, path, name);
    if (enter(UNLINK, name, &after)) return -1;
    int shadow = shadowed(name);
    if (shadow) {
        pthread_mutex_lock(&shadowing);
        inode = kept_inode(name);
    }
    result = real(at, path, flags);
    error = errno;
    if (shadow) {
        if (!result) record_name(flags & AT_REMOVEDIR ? 'X' : 'U', name, inode);
        pthread_mutex_unlock(&shadowing);
    }
    if (after) die();
    errno = error;
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode) {
    REAL(mkdirat);
    char name[PATH_MAX];
    int after, result, error;
    if (!watched(MKDIR)) return real(at, path, mode);
    absolute(at, path, name);
    if (enter(MKDIR, name, &after)) return -1;
    int shadow = shadowed(name);
    if (shadow) pthread_mutex_lock(&shadowing);
    result = real(at, path, mode);
    error = errno;
    if (shadow) {
        if (!result) record_name('M', name, 0);
        pthread_mutex_unlock(&shadowing);
    }
    if (after) die();
    errno = error;
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

// ---------------------------------------------------------------- reads and connections

#define READER(name, parameters, arguments) \
    ssize_t name parameters { \
        REAL(name); \
        char path[PATH_MAX]; \
        int after; \
        if (!watched(READ) && !watched(RECV)) return real arguments; \
        if (enter(name_of(fd, path) ? RECV : READ, path, &after)) return -1; \
        ssize_t got = real arguments; \
        int error = errno; \
        if (after && got > 0) die(); \
        errno = error; \
        return got; \
    }
READER(read, (int fd, void *data, size_t size), (fd, data, size))
READER(readv, (int fd, const struct iovec *pieces, int count), (fd, pieces, count))
READER(pread, (int fd, void *data, size_t size, off_t offset), (fd, data, size, offset))
READER(pread64, (int fd, void *data, size_t size, off_t offset), (fd, data, size, offset))
READER(preadv, (int fd, const struct iovec *pieces, int count, off_t offset), (fd, pieces, count, offset))
READER(preadv64, (int fd, const struct iovec *pieces, int count, off_t offset), (fd, pieces, count, offset))
READER(recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
READER(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
READER(recvfrom, (int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *length),
       (fd, data, size, flags, from, length))

#define SENDER(name, parameters, arguments) \
    ssize_t name parameters { \
        REAL(name); \
        char path[PATH_MAX]; \
        int after; \
        if (!watched(SEND)) return real arguments; \
        name_of(fd, path); \
        if (enter(SEND, path, &after)) return -1; \
        ssize_t sent = real arguments; \
        int error = errno; \
        if (after) die(); \
        errno = error; \
        return sent; \
    }
SENDER(send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
SENDER(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SENDER(sendto, (int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length),
       (fd, data, size, flags, to, length))

// ---------------------------------------------------------------- the clock

static int64_t clock_error(void) {
    if (!clock_asked) {
        const char *path = getenv("FAULTS_CLOCK");
        REAL(open);
        int fd = path ? real(path, O_RDONLY | O_CLOEXEC) : -1;
        void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *clock_file, PROT_READ, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) clock_file = mapped;
        if (fd >= 0) close(fd);
        clock_asked = 1;
    }
    return clock_file ? *clock_file : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanos = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + clock_error();
        now->tv_sec = nanos / 1000000000;
        now->tv_nsec = nanos % 1000000000;
    }
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
