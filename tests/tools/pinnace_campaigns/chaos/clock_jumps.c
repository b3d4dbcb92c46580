/* The time of day, moved by the number of seconds in a file: loaded before an agent (LD_PRELOAD), see faults.py.
 *
 * CLOCK_REALTIME, gettimeofday and time alone: the monotonic clock goes on, as when a clock is set or a machine wakes.
 * The file is mapped, so that a jump takes effect at once and costs nothing; without it nothing is moved.
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

static const volatile int64_t nothing = 0;
static const volatile int64_t *offset_s = &nothing;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("PINNACE_FUZZ_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) offset_s = mapped;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset_s;
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int failed = (int)syscall(SYS_gettimeofday, now, zone);
  if (!failed) now->tv_sec += *offset_s;
  return failed;
}

time_t time(time_t *told) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (told) *told = now.tv_sec;
  return now.tv_sec;
}
