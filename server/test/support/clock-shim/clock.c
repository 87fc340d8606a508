/*
 * A wall clock that can be set, put between a program and the system with LD_PRELOAD. The monotonic clock and all waiting
 * stay as they are.
 *
 * The control file (MILLRACE_CLOCK_CONTROL) holds two 64-bit numbers, mapped and shared with whoever steers: by how many
 * milliseconds the wall clock is ahead, in force at once in every thread; and how many programs have come under it.
 * settable-clock.ts knows the same layout.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { AHEAD, ATTACHED, SIZE = 16 };

static volatile int64_t *control;

__attribute__((constructor)) static void attach(void) {
  const char *path = getenv("MILLRACE_CLOCK_CONTROL");
  int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void *page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) return;
  control = page;
  __atomic_add_fetch(&control[ATTACHED], 1, __ATOMIC_SEQ_CST);
}

static int is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  int failed = (int)syscall(SYS_clock_gettime, clock, at);
  if (failed || control == NULL || !is_wall_clock(clock)) return failed;
  int64_t ms = control[AHEAD];
  at->tv_sec += ms / 1000;
  at->tv_nsec += (ms % 1000) * 1000000;
  if (at->tv_nsec >= 1000000000) {
    at->tv_sec++;
    at->tv_nsec -= 1000000000;
  } else if (at->tv_nsec < 0) {
    at->tv_sec--;
    at->tv_nsec += 1000000000;
  }
  return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  if (failed) return failed;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}
