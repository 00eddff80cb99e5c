// Exit codes, error types and output helpers shared by all commands. Results go to stdout, all
// other output to stderr.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/index.h"

namespace heed {

/// Exit codes of the program.
enum ExitCode {
  kOk = 0,
  kCheckFailed = 1,    ///< for example, a gradient is wrong or a model is not causal
  kUsage = 2,          ///< invalid or contradictory options
  kNumeric = 3,        ///< NaN or infinity; with --strict also a parameter without gradient
  kInputOutput = 4,    ///< a file cannot be read or written
  kBug = 70,           ///< an internal error
  kInterrupted = 130,  ///< Ctrl-C, SIGTERM or SIGHUP
};

/// Invalid input: exit code 2, and the text is printed on one line.
struct UsageError : autograd::ValueError {
  using ValueError::ValueError;
};

/// A failed check: exit code 1, and the text is printed on one line.
struct CheckError : autograd::Error {
  using Error::Error;
};

/// Returns the exit code of an error: kNumeric, kInputOutput, kCheckFailed or kUsage.
ExitCode code_of(const autograd::Error& error);

/// Throws UsageError with the formatted text.
template <class... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> text, Args&&... args) {
  throw UsageError(fmt::format(text, std::forward<Args>(args)...));
}

/// Calls `f`, for use after all user input has been checked. Then a shape, dtype or value error in
/// `f` is a bug in heed, so it is rethrown as std::logic_error. Numeric, check and I/O errors are
/// not changed.
template <class F>
decltype(auto) past_input_checks(F&& f) {
  try {
    return f();
  } catch (const autograd::Error& e) {
    if (code_of(e) != kUsage) throw;
    throw std::logic_error(e.what());
  }
}

/// Writes a text to stdout or stderr. The program writes all text with this function, except the
/// escape sequences of Progress. If the stream is a terminal, control characters and invalid UTF-8
/// are escaped (`\x1b`), because a terminal executes them, and names and texts from files may
/// contain them. Newlines and tabs are not escaped. In a file or a pipe, the output is the text,
/// byte by byte. If writing fails, the text is lost and the error flag of the stream is set.
void put_text(std::FILE* stream, std::string_view text);
/// Prints results to stdout.
template <class... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  put_text(stdout, fmt::format(text, std::forward<Args>(args)...));
}
/// Replaces each key in backquotes by the option of the program: `d_model` becomes --d-model. The
/// error texts of the libraries contain keys in backquotes.
std::string with_options(std::string_view text);
/// Prints one line to stderr: "heed: ", the prefix if one is set ("rank 3: "), and the text after
/// with_options(). Line breaks in the text become blanks.
void print_error(std::string_view text);
/// Sets the prefix of all later errors.
void set_error_prefix(const std::string& prefix);

/// Stores the command line for typed_command(). run_heed() calls it.
void remember_command(int argc, char** argv);
/// Returns the command line. Arguments are quoted if necessary, so that it can be pasted into a
/// shell. Pictures contain it as metadata.
const std::string& typed_command();

/// Returns version, compiler and SIMD target: "0.1.0 (GCC 12.2.0, SIMD target AVX3_ZEN4)".
std::string version_text();

/// Formats an integer with commas: 12,345,678.
std::string with_commas(Index n);
/// Returns a number, with commas, and its noun: "1 run", "1,024 runs". The plural of the noun ends
/// in s.
std::string counted(Index n, std::string_view noun);
/// Formats a number of bytes with powers of 1000: 1.2 kB, 3.4 MB, 5.6 GB.
std::string bytes_text(double bytes);
/// Formats a number with powers of 1000: 1.2 k, 3.4 M, 5.6 G.
std::string si_text(double n);
/// Formats a duration: 0.3 s, 12 s, 3 min 20 s, 2 h 5 min.
std::string seconds_text(double seconds);
/// Formats a duration in at most 7 characters: 0.3s, 12s, 3m20s, 2h05m, 12d3h.
std::string short_duration(double seconds);

}  // namespace heed
