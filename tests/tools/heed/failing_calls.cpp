// A library that LD_PRELOAD loads into heed. It replaces the functions of the C library that work
// on files, whichever code calls them, and kills the process at one of these calls or lets the call
// fail. Environment variables select what the library does:
// - HEED_KILL_AT=N: just before the Nth call that changes the file system, counted from 1, it kills
//   the process (SIGKILL). Consecutive writes to one file count as one call. If this call is the
//   Nth, the process writes half of the first write before the kill.
// - HEED_FAIL_AT=N: the Nth call of open, write, fsync, rename, unlink, mkdir, ftruncate or flock
//   (each call counts, an open for reading, too) fails with the error HEED_FAIL_WITH, such as
//   ENOSPC. If that is "short", only writes count, and a write stores half of its bytes. Only calls
//   for relative paths and for files below HEED_FAIL_BELOW count. The library writes the function
//   and the path of the call to HEED_FAILED. Child processes are not affected.
// - HEED_FAIL_ON=NAME, such as read or stat: only calls of this function count. read includes
//   pread, and stat includes lstat and fstatat. The Nth call and all later ones fail.
// - HEED_FAIL_WITH=new: operator new throws std::bad_alloc at the Nth distinct call site, N being
//   HEED_FAIL_AT, when it is reached for the first time after main() has begun. The call site is
//   the first return address outside libstdc++, so that each use of a std::string counts.
//   HEED_FAILED receives it.
// - HEED_NO_FLOCK=ENOLCK, ENOTSUP or ENOSYS: flock fails with this error, as on a file
//   system without locks.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

namespace {

std::atomic<long> calls{0};
std::atomic<int> last_written{-1};

long number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atol(text) : 0;
}

// Returns the errno with this name, or 0 for any other text.
int error_named(const std::string& name) {
  const std::pair<const char*, int> errors[] = {
      {"ENOSPC", ENOSPC}, {"EIO", EIO},         {"EACCES", EACCES}, {"EINTR", EINTR},
      {"ENOLCK", ENOLCK}, {"ENOTSUP", ENOTSUP}, {"ENOSYS", ENOSYS}};
  for (const auto& [known, error] : errors)
    if (name == known) return error;
  return 0;
}

// Returns the function `name` of the C library. A function in this file replaces it.
template <class F>
F* next(F*, const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

void write_text(const char* path, const std::string& text) {
  const int file = next(&::open, "open")(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (next(&::write, "write")(file, text.data(), text.size()) < 0) std::abort();
  ::close(file);
}

// The failure that HEED_FAIL_AT selects.
struct Failure {
  long at = number_in("HEED_FAIL_AT");  // 0: none
  int error = 0;                        // errno; 0: a short write
  bool allocations = false;             // operator new fails instead of a system call
  std::string below, report, only;

  Failure() {
    if (at == 0) return;
    const std::string with = std::getenv("HEED_FAIL_WITH");
    error = error_named(with);
    allocations = with == "new";
    below = std::string(std::getenv("HEED_FAIL_BELOW")) + "/";
    report = std::getenv("HEED_FAILED");
    if (const char* call = std::getenv("HEED_FAIL_ON")) only = call;
    for (const char* name : {"LD_PRELOAD", "HEED_FAIL_AT"}) ::unsetenv(name);
  }
};
Failure failure;

std::string path_of(int file) {
  char path[PATH_MAX];
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, PATH_MAX);
  return n < 0 ? "" : std::string(path, std::size_t(n));
}

// A range of addresses of machine code.
struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool contains(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= begin && at < end;
  }
};

Range range_of_function(const char* symbol) {
  void* const function = ::dlsym(RTLD_DEFAULT, symbol);
  Dl_info info;
  const ElfW(Sym)* entry = nullptr;
  ::dladdr1(function, &info, const_cast<void**>(reinterpret_cast<const void**>(&entry)),
            RTLD_DL_SYMENT);
  const auto begin = reinterpret_cast<std::uintptr_t>(function);
  return {begin, begin + (entry ? entry->st_size : 0)};
}

// A range of a shared library that is loaded.
struct Library : Range {
  const char* name;
};

Library range_of_library(const char* name) {
  Library library{{}, name};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        auto& r = *static_cast<Library*>(found);
        if (!std::strstr(info->dlpi_name, r.name)) return 0;
        r.begin = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          r.end = std::max<std::uintptr_t>(
              r.end, r.begin + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        return 0;
      },
      &library);
  return library;
}

// The code of operator new, of operator new for aligned memory, of libstdc++ and of this library.
// Empty until main() begins.
Range operator_new, aligned_new, libstdcxx, own;
std::atomic<bool> main_has_begun{false};

// Returns whether an allocation must fail. `caller` is the return address of malloc.
bool allocation_fails(const void* caller) {
  if (!main_has_begun || (!operator_new.contains(caller) && !aligned_new.contains(caller)))
    return false;
  void* frames[24];  // of this function, malloc, operator new, its caller, ...
  int i = 3, depth = ::backtrace(frames, 4);  // more frames would take much longer
  if (depth == 4 && libstdcxx.contains(frames[3])) depth = ::backtrace(frames, 24);
  while (i < depth && libstdcxx.contains(frames[i])) ++i;
  if (i >= depth || own.contains(frames[i])) return false;
  void* const site = frames[i];
  static std::atomic<void*> seen[1 << 16];  // a hash table of call sites
  static std::atomic<long> count{0};
  for (auto at = reinterpret_cast<std::uintptr_t>(site) * 0x9E3779B97F4A7C15u >> 48;;
       at = (at + 1) % std::size(seen)) {
    void* known = nullptr;
    if (seen[at].compare_exchange_strong(known, site)) break;
    if (known == site) return false;
  }
  if (++count != failure.at) return false;
  Dl_info module{};
  ::dladdr(site, &module);
  char text[PATH_MAX];
  std::snprintf(text, sizeof text, "new %s+%#zx\n", module.dli_fname,
                std::size_t(static_cast<char*>(site) - static_cast<char*>(module.dli_fbase)));
  write_text(failure.report.c_str(), text);
  return true;
}

// Counts a call. Returns true if this is the call that must fail, and sets errno.
bool fails(const char* call, const std::string& path) {
  static std::atomic<long> count{0};
  if (failure.at == 0 || failure.allocations || path.empty() ||
      (path[0] == '/' && !path.starts_with(failure.below)) ||
      (failure.error == 0 && std::strcmp(call, "write") != 0) ||
      (!failure.only.empty() && failure.only != call))
    return false;
  if (const long n = ++count; failure.only.empty() ? n != failure.at : n < failure.at) return false;
  write_text(failure.report.c_str(), std::string(call) + " " + path + "\n");
  errno = failure.error;
  return true;
}

// Counts a call, and returns true if the process must be killed before this call. `written` is the
// file descriptor that write() receives. For all other functions it is -1.
bool kills(int written = -1) {
  static const long at = number_in("HEED_KILL_AT");
  if (last_written.exchange(written) == written && written >= 0) return false;
  return ++calls == at;
}

void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

int opened(int at, const char* path, int flags, mode_t mode) {
  if ((flags & (O_CREAT | O_TRUNC)) != 0 && kills()) die();
  if (fails("open", path)) return -1;
  return next(&::openat, "openat")(at, path, flags, mode);
}

FILE* opened(const char* path, const char* mode) {
  if (std::strchr(mode, 'r') == nullptr && kills()) die();
  if (fails("open", path)) return nullptr;
  return next(&::fopen, "fopen")(path, mode);
}

}  // namespace

// Defines a replacement of the function `name` that changes the file system.
#define HEED_REPLACE(name, path, parameters, ...) \
  int name parameters {                           \
    if (kills()) die();                           \
    if (fails(#name, path)) return -1;            \
    return next(&::name, #name)(__VA_ARGS__);     \
  }
// Defines a replacement of open, open64, openat or openat64.
#define HEED_REPLACE_OPEN(name, at, parameters)                            \
  int name parameters {                                                    \
    va_list rest;                                                          \
    va_start(rest, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                          \
    return opened(at, path, flags, mode);                                  \
  }

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);

// The program's operator new (libstdc++) calls these two functions.
void* malloc(size_t size) {
  if (failure.allocations && allocation_fails(__builtin_return_address(0))) return nullptr;
  return __libc_malloc(size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  if (failure.allocations && allocation_fails(__builtin_return_address(0))) return nullptr;
  return __libc_memalign(alignment, size);
}

HEED_REPLACE_OPEN(open, AT_FDCWD, (const char* path, int flags, ...))
HEED_REPLACE_OPEN(open64, AT_FDCWD, (const char* path, int flags, ...))
HEED_REPLACE_OPEN(openat, at, (int at, const char* path, int flags, ...))
HEED_REPLACE_OPEN(openat64, at, (int at, const char* path, int flags, ...))

FILE* fopen(const char* path, const char* mode) { return opened(path, mode); }
FILE* fopen64(const char* path, const char* mode) { return opened(path, mode); }

ssize_t write(int file, const void* bytes, size_t size) {
  const auto real = next(&::write, "write");
  if (file <= 2) return real(file, bytes, size);
  if (kills(file)) {
    real(file, bytes, size / 2);
    die();
  }
  if (!fails("write", path_of(file))) return real(file, bytes, size);
  return failure.error == 0 ? real(file, bytes, (size + 1) / 2) : -1;
}

// The function has another name in C++ than its symbol "flock", because <fcntl.h> declares a struct
// flock.
int flock_or_not(int file, int operation) __asm__("flock");
int flock_or_not(int file, int operation) {
  if (const char* error = std::getenv("HEED_NO_FLOCK")) {
    errno = error_named(error);
    return -1;
  }
  if (fails("flock", path_of(file))) return -1;
  return next(&flock_or_not, "flock")(file, operation);
}

// Calls main() of heed after it has set main_has_begun.
using Main = int (*)(int, char**, char**);
Main real_main;
int begin_main(int argc, char** argv, char** environment) {
  if (failure.allocations) {
    operator_new = range_of_function("_Znwm");
    aligned_new = range_of_function("_ZnwmSt11align_val_t");
    libstdcxx = range_of_library("libstdc++");
    own = range_of_library("failing_calls");
    void* frame;
    ::backtrace(&frame, 1);  // allocates when it is called for the first time
  }
  main_has_begun = true;
  return real_main(argc, argv, environment);
}
int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*rtld_fini)(), void* stack_end) {
  real_main = main;
  return next(&__libc_start_main, "__libc_start_main")(begin_main, argc, argv, init, fini,
                                                       rtld_fini, stack_end);
}

// Defines a replacement of a function that reads. It fails only if HEED_FAIL_ON names `call`.
#define HEED_REPLACE_READ(type, name, call, path, parameters, ...) \
  type name parameters {                                           \
    if (failure.only == (call) && fails(call, path)) return -1;    \
    return next(&::name, #name)(__VA_ARGS__);                      \
  }
HEED_REPLACE_READ(ssize_t, read, "read", path_of(file), (int file, void* out, size_t size), file,
                  out, size)
HEED_REPLACE_READ(ssize_t, pread, "read", path_of(file),
                  (int file, void* out, size_t size, off_t at), file, out, size, at)
HEED_REPLACE_READ(int, lstat, "stat", path, (const char* path, struct stat* out), path, out)
HEED_REPLACE_READ(int, fstatat, "stat", path,
                  (int at, const char* path, struct stat* out, int flags), at, path, out, flags)
// The struct has the same name, so that `&::stat` would be ambiguous in the macro.
int stat(const char* path, struct stat* out) {
  if (failure.only == "stat" && fails("stat", path)) return -1;
  using Stat = int(const char*, struct stat*);
  return next(static_cast<Stat*>(nullptr), "stat")(path, out);
}

HEED_REPLACE(fsync, path_of(file), (int file), file)
HEED_REPLACE(ftruncate, path_of(file), (int file, off_t size), file, size)
HEED_REPLACE(rename, to, (const char* from, const char* to), from, to)
HEED_REPLACE(unlink, path, (const char* path), path)
HEED_REPLACE(unlinkat, path, (int at, const char* path, int flags), at, path, flags)
HEED_REPLACE(rmdir, path, (const char* path), path)
HEED_REPLACE(remove, path, (const char* path), path)
HEED_REPLACE(mkdir, path, (const char* path, mode_t mode), path, mode)

}  // extern "C"
