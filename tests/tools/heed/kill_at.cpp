// A library that LD_PRELOAD loads into heed. It replaces the functions of the C library that change
// the file system, and counts their calls. Environment variables select what the library does:
// - HEED_KILL_AT=N: just before the Nth call, counted from 1, it kills the process (SIGKILL).
//   Consecutive writes to one file count as one call. If this call is the Nth, the process writes
//   half of the first write before the kill.
// - HEED_KILL_COUNT=FILE: when the process ends, it writes the number of calls to FILE.
// - HEED_NO_FLOCK=1: flock fails, as on file systems without locks.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls{0};
std::atomic<int> last_written{-1};

// Returns the number of the call that HEED_KILL_AT selects, or 0 if it selects none.
long selected() {
  static const long at = std::getenv("HEED_KILL_AT") ? std::atol(std::getenv("HEED_KILL_AT")) : 0;
  return at;
}

// Counts a call, and returns true if the process must be killed before this call. `written` is the
// file descriptor that write() receives. For all other functions it is -1.
bool is_selected(int written = -1) {
  if (last_written.exchange(written) == written && written >= 0) return false;
  return ++calls == selected();
}

void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// Returns the function `name` of the C library. A function in this file replaces it.
template <class F>
F* next(F*, const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

__attribute__((destructor)) void write_count() {
  const char* path = std::getenv("HEED_KILL_COUNT");
  if (!path) return;
  const int file = next(&::open, "open")(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  ::dprintf(file, "%ld\n", calls.load());
  ::close(file);
}

int opened(const char* path, int flags, mode_t mode, const char* name) {
  if ((flags & (O_CREAT | O_TRUNC)) != 0 && is_selected()) die();
  return next(&::open, name)(path, flags, mode);
}

}  // namespace

// Defines a replacement of the function `name`. Before the selected call it kills the process.
// Otherwise it calls the function of the C library.
#define HEED_BEFORE(name, parameters, ...)    \
  int name parameters {                       \
    if (is_selected()) die();                 \
    return next(&::name, #name)(__VA_ARGS__); \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(path, flags, mode, "open");
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(path, flags, mode, "open64");
}

FILE* fopen(const char* path, const char* mode) {
  if (std::strchr(mode, 'r') == nullptr && is_selected()) die();
  return next(&::fopen, "fopen")(path, mode);
}

ssize_t write(int file, const void* bytes, size_t size) {
  const auto real = next(&::write, "write");
  if (file > 2 && is_selected(file)) {
    real(file, bytes, size / 2);
    die();
  }
  return real(file, bytes, size);
}

// The function has another name in C++ than its symbol "flock", because <fcntl.h> declares a struct
// flock.
int flock_or_not(int file, int operation) __asm__("flock");
int flock_or_not(int file, int operation) {
  if (std::getenv("HEED_NO_FLOCK")) {
    errno = ENOLCK;
    return -1;
  }
  return next(&flock_or_not, "flock")(file, operation);
}

HEED_BEFORE(fsync, (int file), file)
HEED_BEFORE(rename, (const char* from, const char* to), from, to)
HEED_BEFORE(unlink, (const char* path), path)
HEED_BEFORE(unlinkat, (int at, const char* path, int flags), at, path, flags)
HEED_BEFORE(rmdir, (const char* path), path)
HEED_BEFORE(remove, (const char* path), path)
HEED_BEFORE(mkdir, (const char* path, mode_t mode), path, mode)

}  // extern "C"
