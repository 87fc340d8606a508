/*
 * A disk that fails, dawdles and remembers, put between a program and the kernel with LD_PRELOAD.
 *
 * For the files of one folder (MILLRACE_FAULT_DIR, absolute, without links) it
 *   - counts the calls of each kind, and fails the n-th, or all from the n-th on, with an error number;
 *   - delays them;
 *   - writes down what happened, in order, so that the disk of any moment can be made again (recording.ts, image.ts);
 *   - kills the program in a step that it names on stderr: MILLRACE_FAULT_KILL is "TEXT", or "TEXT|FILE|KIND|N" for the moment
 *     before the n-th call of a kind on one of the files after the text.
 *
 * The control file (MILLRACE_FAULT_CONTROL) is one page of 32-bit words, mapped and shared with whoever steers: a word
 * changed there is in force at once, and the counts can be read there. faults.ts knows the same layout.
 *
 * Calls go to the kernel with syscall(2), not through dlsym: nothing needs to be looked up before the first call.
 * What mmap writes is not seen. SQLite maps only the -shm file, which is no part of what must survive.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, SYNC, TRUNCATE, UNLINK, RENAME, MKDIR };

/* Words of the control page. */
enum { ATTACHED = 0, PAUSED = 1, KINDS_AT = 16, WORDS_OF_A_KIND = 8, PAGE = 4096 };
enum { CALLS, FAILED, FAIL_FROM, FAIL_TIMES, FAIL_WITH, DELAY_US, ON_MAIN_THREAD };

/* Records of the recording. SYNC_BEGAN and its end carry the same number in `at`. */
enum record { NAMED = 1, WRITTEN, CUT, SYNC_BEGAN, SYNC_DONE, SYNC_FAILED, UNLINKED, RENAMED };

struct header {
  uint32_t what;
  uint32_t length; /* of what follows: bytes written, or a name */
  uint64_t file;
  uint64_t at; /* an offset, a new size, 1 for a file just made, or the number of a sync */
};

enum { MOST_FDS = 65536, MOST_FILES = 1048576, FOLDER = 1 };

/* A file keeps its number for life; an inode number is given to the next file soon after a deletion. */
static struct file { dev_t dev; ino_t ino; uint64_t number; uint32_t failures; } files[MOST_FILES];
static int file_count;
static uint64_t last_number = FOLDER;
static uint64_t last_sync;

/* What an open descriptor stands for; number 0: not ours. Every descriptor is told once of every failed sync of its file. */
static struct { uint64_t number; dev_t dev; ino_t ino; struct file *file; uint32_t told; int is_target; } fds[MOST_FDS];
static struct file the_folder = {.number = FOLDER};

static const char *folder;
static size_t folder_length;
static uint32_t *control;
static int recording = -1;
/* Around a call and its record, so that the recording has the order of what happened. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

/* Where the program is to die. `calls_left` counts from the moment at which the text was written; -1 before. */
static char kill_text[256], kill_file[64];
static unsigned kill_kind, kill_nth;
static int calls_left = -1;

static void die(void) { syscall(SYS_kill, getpid(), SIGKILL); }

static void choose_death(const char *wish) {
  if (wish == NULL || wish[0] == '\0') return;
  sscanf(wish, "%255[^|]|%63[^|]|%u|%u", kill_text, kill_file, &kill_kind, &kill_nth);
}

/* Looks for the text in what the program says; a line is written at once. */
static void hear(int fd, const void *bytes, size_t length) {
  if (fd != STDERR_FILENO || kill_text[0] == '\0') return;
  if (memmem(bytes, length, kill_text, strlen(kill_text)) == NULL) return;
  if (kill_file[0] == '\0') die();
  int unheard = -1;
  __atomic_compare_exchange_n(&calls_left, &unheard, (int)kill_nth, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void meet_death(int fd, enum kind kind) {
  if (!fds[fd].is_target || kind != kill_kind || __atomic_load_n(&calls_left, __ATOMIC_SEQ_CST) < 0) return;
  if (__atomic_sub_fetch(&calls_left, 1, __ATOMIC_SEQ_CST) == 0) die();
}

__attribute__((constructor)) static void attach(void) {
  choose_death(getenv("MILLRACE_FAULT_KILL"));
  const char *dir = getenv("MILLRACE_FAULT_DIR");
  const char *page = getenv("MILLRACE_FAULT_CONTROL");
  const char *log = getenv("MILLRACE_FAULT_RECORDING");
  if (dir == NULL || page == NULL) return;
  int fd = syscall(SYS_openat, AT_FDCWD, page, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return;
  control = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (control == MAP_FAILED) return;
  if (log != NULL) recording = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  folder_length = strlen(dir);
  folder = dir;
  __atomic_fetch_add(&control[ATTACHED], 1, __ATOMIC_SEQ_CST);
}

/* The name inside the folder, "" for the folder itself, NULL for everything else. */
static const char *inside(const char *path) {
  if (folder == NULL || path == NULL || strncmp(path, folder, folder_length) != 0) return NULL;
  if (path[folder_length] == '/') return path + folder_length + 1;
  return path[folder_length] == '\0' ? "" : NULL;
}

/* Counts a call, waits as long as asked, and gives the error it is to fail with, or 0; nothing of that while faults are paused. */
static int meet(enum kind kind) {
  if (__atomic_load_n(&control[PAUSED], __ATOMIC_SEQ_CST) != 0) return 0;
  uint32_t *words = control + KINDS_AT + kind * WORDS_OF_A_KIND;
  uint32_t nth = __atomic_add_fetch(&words[CALLS], 1, __ATOMIC_SEQ_CST);
  if (syscall(SYS_gettid) == getpid()) __atomic_fetch_add(&words[ON_MAIN_THREAD], 1, __ATOMIC_SEQ_CST);
  uint32_t delay = __atomic_load_n(&words[DELAY_US], __ATOMIC_SEQ_CST);
  if (delay > 0) {
    struct timespec time = {delay / 1000000, (long)(delay % 1000000) * 1000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) continue;
  }
  uint32_t from = __atomic_load_n(&words[FAIL_FROM], __ATOMIC_SEQ_CST);
  if (from == 0 || nth < from || nth - from >= __atomic_load_n(&words[FAIL_TIMES], __ATOMIC_SEQ_CST)) return 0;
  return (int)__atomic_load_n(&words[FAIL_WITH], __ATOMIC_SEQ_CST);
}

static int fail(enum kind kind, int error) {
  __atomic_fetch_add(&control[KINDS_AT + kind * WORDS_OF_A_KIND + FAILED], 1, __ATOMIC_SEQ_CST);
  errno = error;
  return -1;
}

/* Appends a record; the caller holds `order`. Leaves errno alone: the call it follows may have set it. */
static void record(enum record what, uint64_t file, uint64_t at, const void *bytes, size_t length) {
  if (recording < 0) return;
  int before = errno;
  struct header header = {what, (uint32_t)length, file, at};
  struct iovec parts[2] = {{&header, sizeof header}, {(void *)bytes, length}};
  syscall(SYS_writev, recording, parts, length > 0 ? 2 : 1);
  errno = before;
}

/* An open file; with a new number if it was just made. The caller holds `order`. */
static struct file *file_of(const struct stat *facts, int made) {
  if (S_ISDIR(facts->st_mode)) return &the_folder;
  struct file *file = files;
  while (file < files + file_count && (file->ino != facts->st_ino || file->dev != facts->st_dev)) file++;
  if (file < files + file_count && !made) return file;
  if (file == files + MOST_FILES) abort();
  if (file == files + file_count) file_count++;
  *file = (struct file){.dev = facts->st_dev, .ino = facts->st_ino, .number = ++last_number};
  return file;
}

/* The number behind a descriptor, 0 when it is not ours (any more: libuv closes some without telling us). */
static uint64_t tracked(int fd) {
  if (fd < 0 || fd >= MOST_FDS || fds[fd].number == 0) return 0;
  struct stat facts;
  if (fstat(fd, &facts) != 0 || facts.st_ino != fds[fd].ino || facts.st_dev != fds[fd].dev) {
    fds[fd].number = 0;
    return 0;
  }
  return fds[fd].number;
}

static void track(int fd, const char *name, int made, int flags) {
  struct stat facts;
  if (fd >= MOST_FDS || fstat(fd, &facts) != 0) abort();
  struct file *file = file_of(&facts, made);
  uint64_t number = file->number;
  fds[fd].number = number;
  fds[fd].dev = facts.st_dev;
  fds[fd].ino = facts.st_ino;
  fds[fd].file = file;
  fds[fd].told = file->failures;
  fds[fd].is_target = kill_file[0] != '\0' && strcmp(name, kill_file) == 0;
  if (file == &the_folder) return;
  record(NAMED, number, made, name, strlen(name));
  if (flags & O_TRUNC) record(CUT, number, 0, NULL, 0);
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
  const char *name = inside(path);
  if (name == NULL) {
    int fd = syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && fd < MOST_FDS) fds[fd].number = 0;
    return fd;
  }
  pthread_mutex_lock(&order);
  struct stat facts;
  int made = (flags & O_CREAT) && stat(path, &facts) != 0;
  int error = meet(OPEN);
  /* As real ones: a full disk refuses new files only, a read-only one refuses whoever may write. */
  if (error == ENOSPC && !made) error = 0;
  if (error == EROFS && (flags & O_ACCMODE) == O_RDONLY) error = 0;
  int fd = error ? fail(OPEN, error) : (int)syscall(SYS_openat, at, path, flags, mode);
  if (fd >= 0) track(fd, name, made, flags);
  pthread_mutex_unlock(&order);
  return fd;
}

static mode_t mode_in(int flags, va_list rest) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

#define OPENER(name, before, at)                       \
  int name(before const char *path, int flags, ...) {  \
    va_list rest;                                      \
    va_start(rest, flags);                             \
    mode_t mode = mode_in(flags, rest);                \
    va_end(rest);                                      \
    return open_at(at, path, flags, mode);             \
  }
#define NOTHING
#define A_FOLDER int dirfd,
OPENER(open, NOTHING, AT_FDCWD)
OPENER(open64, NOTHING, AT_FDCWD)
OPENER(openat, A_FOLDER, dirfd)
OPENER(openat64, A_FOLDER, dirfd)

int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
  if (fd >= 0 && fd < MOST_FDS) fds[fd].number = 0;
  return syscall(SYS_close, fd);
}

/* Writes at an offset, or at the file's own position when that is -1. */
static ssize_t put(int fd, const void *bytes, size_t length, off_t at) {
  uint64_t number = tracked(fd);
  if (number == 0) {
    ssize_t said = at < 0 ? syscall(SYS_write, fd, bytes, length) : syscall(SYS_pwrite64, fd, bytes, length, at);
    hear(fd, bytes, length);
    return said;
  }
  meet_death(fd, WRITE);
  int error = meet(WRITE);
  pthread_mutex_lock(&order);
  off_t where = at >= 0                                  ? at
                : syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END)
                                                         : lseek(fd, 0, SEEK_CUR);
  /* A failed write may have got half way. */
  size_t much = error && error != EROFS ? length / 2 : error ? 0 : length;
  ssize_t written = at < 0 ? syscall(SYS_write, fd, bytes, much) : syscall(SYS_pwrite64, fd, bytes, much, at);
  if (written > 0) record(WRITTEN, number, where, bytes, written);
  pthread_mutex_unlock(&order);
  return error ? fail(WRITE, error) : written;
}

ssize_t write(int fd, const void *bytes, size_t length) { return put(fd, bytes, length, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return put(fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return put(fd, bytes, length, at); }

static ssize_t put_parts(int fd, const struct iovec *parts, int count, off_t at) {
  ssize_t total = 0;
  for (int nth = 0; nth < count; nth++) {
    ssize_t written = put(fd, parts[nth].iov_base, parts[nth].iov_len, at < 0 ? -1 : at + total);
    if (written < 0) return total > 0 ? total : -1;
    total += written;
    if ((size_t)written < parts[nth].iov_len) break;
  }
  return total;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (tracked(fd) || fd == STDERR_FILENO) return put_parts(fd, parts, count, -1);
  return syscall(SYS_writev, fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return put_parts(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return put_parts(fd, parts, count, at); }

static int refuse_read(int fd) {
  int error = tracked(fd) ? meet(READ) : 0;
  return error ? fail(READ, error) : 0;
}

ssize_t read(int fd, void *bytes, size_t length) {
  return refuse_read(fd) ? -1 : syscall(SYS_read, fd, bytes, length);
}
ssize_t pread64(int fd, void *bytes, size_t length, off64_t at) {
  return refuse_read(fd) ? -1 : syscall(SYS_pread64, fd, bytes, length, at);
}
ssize_t pread(int fd, void *bytes, size_t length, off_t at) { return pread64(fd, bytes, length, at); }

/*
 * What was written before the sync began is on the disk when it is done. After a failed one it never will be for sure: the
 * kernel takes it for written, tells every descriptor of the file once, and later syncs succeed without it (Linux from 4.13).
 */
static int sync_with(long call, int fd) {
  uint64_t number = tracked(fd);
  if (number == 0) return syscall(call, fd);
  pthread_mutex_lock(&order);
  uint64_t nth = ++last_sync;
  record(SYNC_BEGAN, number, nth, NULL, 0);
  pthread_mutex_unlock(&order);
  meet_death(fd, SYNC);
  int error = meet(SYNC);
  int result = error ? -1 : (int)syscall(call, fd);
  pthread_mutex_lock(&order);
  struct file *file = fds[fd].file;
  if (error) file->failures++;
  else if (fds[fd].told != file->failures) error = EIO;
  fds[fd].told = file->failures;
  record(result == 0 ? SYNC_DONE : SYNC_FAILED, number, nth, NULL, 0);
  pthread_mutex_unlock(&order);
  return error ? fail(SYNC, error) : result;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int ftruncate64(int fd, off64_t size) {
  uint64_t number = tracked(fd);
  if (number == 0) return syscall(SYS_ftruncate, fd, size);
  meet_death(fd, TRUNCATE);
  int error = meet(TRUNCATE);
  if (error) return fail(TRUNCATE, error);
  pthread_mutex_lock(&order);
  int result = syscall(SYS_ftruncate, fd, size);
  if (result == 0) record(CUT, number, size, NULL, 0);
  pthread_mutex_unlock(&order);
  return result;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int truncate64(const char *path, off64_t size) {
  if (inside(path) == NULL) return syscall(SYS_truncate, path, size);
  int fd = open_at(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0) return -1;
  int result = ftruncate64(fd, size);
  int error = errno;
  close(fd);
  errno = error;
  return result;
}
int truncate(const char *path, off_t size) { return truncate64(path, size); }

int unlinkat(int at, const char *path, int flags) {
  const char *name = inside(path);
  int error = name == NULL ? 0 : meet(UNLINK);
  if (error) return fail(UNLINK, error);
  pthread_mutex_lock(&order);
  int result = syscall(SYS_unlinkat, at, path, flags);
  if (result == 0 && name != NULL) record(UNLINKED, FOLDER, 0, name, strlen(name));
  pthread_mutex_unlock(&order);
  return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rename(const char *from, const char *to) {
  const char *before = inside(from), *after = inside(to);
  if (before == NULL || after == NULL) return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  int error = meet(RENAME);
  if (error) return fail(RENAME, error);
  pthread_mutex_lock(&order);
  int result = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  char both[8192];
  size_t first = strlen(before), second = strlen(after);
  if (first + second + 1 > sizeof both) abort();
  memcpy(both, before, first + 1);
  memcpy(both + first + 1, after, second);
  if (result == 0) record(RENAMED, FOLDER, 0, both, first + 1 + second);
  pthread_mutex_unlock(&order);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  int error = inside(path) == NULL ? 0 : meet(MKDIR);
  return error ? fail(MKDIR, error) : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
