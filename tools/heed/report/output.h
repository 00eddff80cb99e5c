// What every command shares when it talks: exit codes, bad input, the two streams. stdout carries
// results, stderr everything else.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "autograd/base/error.h"

namespace heed {

enum ExitCode {
  kOk = 0,
  kCheckFailed = 1,  ///< a gradient is wrong, a batch is not learned, a model leaks
  kUsage = 2,        ///< what was asked for cannot be done
  kNumeric = 3,      ///< NaN or infinity; with --strict a parameter without gradient
  kInputOutput = 4,
  kBug = 70,
  kInterrupted = 130,
};

/// The user asked for something that cannot be: exit 2, the text as one line.
struct UsageError : autograd::ValueError {
  using ValueError::ValueError;
};

/// A check failed: exit 1, the text as one line.
struct CheckError : autograd::Error {
  using Error::Error;
};

template <class... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> text, Args&&... args) {
  throw UsageError(fmt::format(text, std::forward<Args>(args)...));
}

/// Runs f, in which the user's input has been checked already: a shape, dtype or value error there
/// is a bug of ours.
template <class F>
decltype(auto) past_input_checks(F&& f) {
  try {
    return f();
  } catch (const autograd::NumericError&) {
    throw;
  } catch (const CheckError&) {
    throw;
  } catch (const autograd::IoError&) {
    throw;
  } catch (const autograd::Error& e) {
    throw std::logic_error(e.what());
  }
}

/// Results, on stdout.
template <class... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print(text, std::forward<Args>(args)...);
}
/// Returns a text of the libraries, which name a setting by its key in backquotes (`d_model`), with
/// the program's option in its place (--d-model).
std::string with_options(std::string_view text);
/// One line on stderr, "heed: " in front, and the prefix, if one was set ("rank 3: "). Keys in
/// backquotes become options.
void print_error(std::string_view text);
void set_error_prefix(const std::string& prefix);

/// Keeps the command line for typed_command(); for main alone.
void remember_command(int argc, char** argv);
/// The command line as it can be pasted into a shell again: heed study --prompt 'a b'. Pictures
/// keep it.
const std::string& typed_command();

/// "0.1.0 (GCC 12.2.0, SIMD target AVX3_ZEN4)"
std::string version_text();

/// 12,345,678
std::string with_commas(std::int64_t n);
/// 1.2 kB, 3.4 MB, 5.6 GB (powers of 1000)
std::string bytes_text(double bytes);
/// 1.2 k, 3.4 M, 5.6 G
std::string si_text(double n);
/// 0.3 s, 12 s, 3 min 20 s, 2 h 5 min
std::string seconds_text(double seconds);
/// 0.3s, 12s, 3m20s, 2h05m, 12d3h: at most 7 characters
std::string short_duration(double seconds);

}  // namespace heed
