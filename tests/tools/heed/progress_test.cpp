// Tests of the progress output on stderr: plain lines in a file, and one line that is overwritten
// at a terminal. During long work, Progress prints the current line again.
#include "tools/heed/report/progress.h"

#include <sys/ioctl.h>
#include <termios.h>

#include <chrono>
#include <thread>

#include "autograd/base/files.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/redirected.h"
#include "tools/heed/report/output.h"

namespace {

using heed::Progress;
using heed::testing::Folder;
using heed::testing::Redirected;

void wait(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Returns the text that f writes to stderr while stderr is a file.
template <class F>
std::string written_by(F f) {
  const Folder folder;
  {
    const Redirected err(stderr, folder / "err");
    f();
  }
  return heed::autograd::read_file((folder / "err").string());
}

// Returns the text that f writes to stderr while stderr is a terminal of 40 columns. The text must
// fit into the terminal's buffer.
template <class F>
std::string shown_by(F f) {
  const int screen = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(screen >= 0);
  REQUIRE(::grantpt(screen) == 0);
  REQUIRE(::unlockpt(screen) == 0);
  const int line = ::open(::ptsname(screen), O_RDWR | O_NOCTTY);
  REQUIRE(line >= 0);
  const int keeps_open = ::dup(line);  // closing the last descriptor would lose the text
  winsize size{};
  size.ws_row = 5, size.ws_col = 40;
  ::ioctl(line, TIOCSWINSZ, &size);
  termios raw{};
  ::tcgetattr(line, &raw);
  ::cfmakeraw(&raw);
  ::tcsetattr(line, TCSANOW, &raw);
  {
    const Redirected err(stderr, line);
    f();
  }
  ::fcntl(screen, F_SETFL, O_NONBLOCK);
  std::string text(4096, '\0');
  const ssize_t n = ::read(screen, text.data(), text.size());
  ::close(keeps_open);
  ::close(screen);
  text.resize(n > 0 ? std::size_t(n) : 0);
  return text;
}

// Sets an environment variable, or removes it if `value` is nullptr. The destructor restores it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) kept_ = old, had_ = true;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { had_ ? ::setenv(name_, kept_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string kept_;
  bool had_ = false;
};

// `silence` of Progress in tests in which no progress line becomes due, however long a test takes.
constexpr double kNever = 1e6;

TEST_CASE("in a file, long work is a line when it is due, and the line is repeated") {
  CHECK(written_by([] { Progress(false, kNever).at_work("too early"); }) == "");
  const Folder folder;
  const std::string file = (folder / "err").string();
  const auto text = [&] { return heed::autograd::read_file(file); };
  std::string before;
  {
    const Redirected err(stderr, file);
    Progress p(false, 0);
    wait(0.01);
    p.at_work("counts: 1 of 2");
    while (text().find(" s)\n") == std::string::npos) wait(0.01);  // the repeated line
    p.clear();
    before = text();
    wait(1.4);  // no line is printed after clear()
  }
  INFO(before);
  CHECK(text() == before);
  CHECK(before.starts_with("counts: 1 of 2\ncounts: 1 of 2  ("));
  CHECK(before.ends_with(" s)\n"));
}

TEST_CASE("HEED_PROGRESS=lines prints a line after a second, also at a terminal") {
  const Variable term("TERM", "xterm"), color("NO_COLOR", nullptr), form("HEED_PROGRESS", "lines");
  CHECK(shown_by([] {
          Progress p(false, kNever);
          p.at_work("too early");
          wait(1.1);
          p.at_work("a line that is longer than the terminal is wide");
        }) == "a line that is longer than the terminal is wide\n");
}

TEST_CASE("quiet suppresses all lines but warnings") {
  const Variable term("TERM", "xterm"), color("NO_COLOR", nullptr);
  const auto output = [](bool quiet) {
    return written_by([quiet] {
      Progress p(quiet, 0);
      p.line("a line");
      p.warn("trouble");
      wait(0.01);
      p.at_work("works");
    });
  };
  CHECK(output(true) == "trouble\n");
  // A file gets no color codes. On a loaded machine, "works" may be repeated before the end.
  CHECK(output(false).starts_with("a line\ntrouble\nworks\n"));
}

TEST_CASE("a terminal has one live line, cut to its width, and red warnings") {
  if (skips(::access("/dev/ptmx", R_OK | W_OK) != 0, "no pseudo-terminals here")) return;
  const Variable term("TERM", "xterm");
  const auto output = [] {
    return shown_by([] {
      Progress p(false, kNever);
      wait(0.15);
      p.at_work(std::string(50, 'x'));
      p.line("a line");
      p.warn("trouble");
    });
  };
  const std::string wipe = "\r\033[K", live = wipe + std::string(39, 'x');
  {
    const Variable color("NO_COLOR", nullptr);
    CHECK(output() == live + wipe + "a line\n\033[31mtrouble\033[0m\n");
  }
  const Variable color("NO_COLOR", "1");
  CHECK(output() == live + wipe + "a line\ntrouble\n");
  // The escape sequences of Progress reach the terminal, and those in its texts do not. A live line
  // has no line breaks, and it is not cut inside a character.
  const auto hostile = [] {
    Progress p(false, kNever);
    wait(0.15);
    p.at_work("a\nb\x1b[2J" + std::string(27, 'x') + "é");
    p.line("\x1b]0;x\x07 \x7f \xc2\x9b \x9b é\tok\nnext");
    p.warn("\r\x1b[1m w");
  };
  CHECK(shown_by(hostile) == wipe + "a\\nb\\x1b[2J" + std::string(27, 'x') + wipe +
                                 "\\x1b]0;x\\x07 \\x7f \\x9b \\x9b é\tok\nnext\n\\r\\x1b[1m w\n");
  CHECK(written_by(hostile).starts_with(
      "\x1b]0;x\x07 \x7f \xc2\x9b \x9b é\tok\nnext\n\r\x1b[1m w\n"));
}

}  // namespace
