#include "tools/heed/sweep/worker.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "autograd/base/error.h"

namespace heed {
namespace {

constexpr int kStopping[] = {SIGINT, SIGTERM, SIGHUP};  // they make `heed train` save and end

sigset_t stopping_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : kStopping) ::sigaddset(&signals, signal);
  return signals;
}

// Runs in the child between fork and exec, so it may call only async-signal-safe functions. Signals
// that arrived since the fork stay blocked until the default actions are restored.
[[noreturn]] void become_heed(char* const* arguments, int out, int err, pid_t parent) {
  ::setpgid(0, 0);
  for (const int signal : kStopping) ::signal(signal, SIG_DFL);  // SIGHUP may be ignored (nohup)
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);
  if (::getppid() != parent) ::_exit(127);  // the parent was killed before prctl
  const sigset_t signals = stopping_signals();
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv("/proc/self/exe", arguments);
  ::_exit(127);
}

std::string text_of(int file) {
  std::string text;
  char part[4096];
  for (ssize_t n; (n = ::pread(file, part, sizeof part, off_t(text.size()))) > 0;)
    text.append(part, std::size_t(n));
  return text;
}

}  // namespace

Worker::Worker(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"heed"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  out_ = ::memfd_create("heed-out", MFD_CLOEXEC);
  err_ = ::memfd_create("heed-err", MFD_CLOEXEC);
  const pid_t parent = ::getpid();
  const sigset_t signals = stopping_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (out_ >= 0 && err_ >= 0) process_ = ::fork();
  if (process_ == 0) become_heed(argv.data(), out_, err_, parent);
  const char* reason = process_ < 0 ? std::strerror(errno) : "";
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  if (process_ > 0) return;
  close_files();
  heed::fail<autograd::IoError>("sweep", "cannot start a process: ", reason);
}

Worker::~Worker() {
  int ignored = 0;
  stop();
  while (!code_ && ::waitpid(process_, &ignored, 0) < 0 && errno == EINTR) {
  }
  close_files();
}

void Worker::close_files() {
  for (const int file : {out_, err_})
    if (file >= 0) ::close(file);
}

std::optional<int> Worker::ended() {
  int status = 0;
  if (!code_ && ::waitpid(process_, &status, WNOHANG) == process_)
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

void Worker::stop() const {
  if (!code_) ::kill(process_, SIGHUP);
}

std::string Worker::out() const { return text_of(out_); }
std::string Worker::err() const { return text_of(err_); }

}  // namespace heed
