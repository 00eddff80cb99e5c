// Main program: runs the command that the command line names, and turns exceptions into exit codes.
#include "tools/heed/heed.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/kernels/simd/simd.h"
#include "tools/heed/command_line/cli11.h"
#include "tools/heed/ranks.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

constexpr const char* kStart = R"(heed trains toy causal models and checks their gradients.

Three commands to start with:
  heed train       trains a model on the task induction; takes seconds
  heed generate    continues a sequence with the newest model
  heed gradcheck   checks the derivative of every op and layer

heed --help lists all commands. heed train --help describes train.
)";

// Opens /dev/null for each standard stream that was closed when the program started, in a mode in
// which using the stream fails. Otherwise a file that is opened later could get the file descriptor
// of the stream.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0)
      std::ignore = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Ends the process after an exception that cannot be thrown further, such as std::bad_alloc in a
// destructor. Prints the exception like any other. No clean-up is needed, because every file that
// heed writes is whole at any time.
[[noreturn]] void end_process() try {
  const std::exception_ptr error = std::current_exception();
  std::_Exit(exit_code_of([&]() -> int {
    if (error) std::rethrow_exception(error);
    throw std::logic_error("std::terminate was called");
  }));
} catch (...) {  // no memory is left, not even for the text of an error
  constexpr std::string_view kText = "heed: out of memory\n";
  std::_Exit(::write(STDERR_FILENO, kText.data(), kText.size()) < 0 ? kBug : kInputOutput);
}

int print_out(const Out& out, const Command& command) {
  put_text(stdout, command.json ? out.as_json() : out.as_text());
  if (!out.error.empty()) print_error(out.error);
  return out.exit_code;
}

int run(int argc, char** argv, Commands (*all)()) {
  remember_command(argc, argv);
  const Commands commands = all();
  static char help[] = "--help";
  if (argc > 1 && std::string_view(argv[1]) == "help") argv[1] = help;
  const CommandLine line = parse_command_line(commands, argc, argv);
  if (!line.help.empty()) {
    print("{}", line.help);
    return kOk;
  }
  if (!line.command && !line.version) {
    print("{}", kStart);
    return kOk;
  }
  // HEED_SIMD is read after help was printed, so that help works even if HEED_SIMD is invalid.
  if (const char* target = std::getenv("HEED_SIMD")) autograd::kernels::force_simd_target(target);
  if (line.version) {
    print("heed {}\nthreads  {}\n", version_text(), autograd::num_threads());
    return kOk;
  }
  Command& command = *line.command;
  if (command.given("config")) command.read_config_file(commands);
  const Mode& mode = command.mode();
  if (const int processes = launcher().size; processes > 1 && !mode.several)
    usage_error("{} is for one process, got {} processes; leave out mpirun",
                command.typed() + (mode.key.empty() ? "" : " " + mode.name()), processes);
  if (command.set_defaults) command.set_defaults(command);
  command.assign();
  if (command.threads > 0) autograd::set_num_threads(int(command.threads));
  return print_out(mode.run(command), command);
}

}  // namespace

int exit_code_of(const std::function<int()>& command) {
  int code = kBug;
  try {
    code = command();
  } catch (const autograd::Error& e) {
    print_error(e.what());
    code = code_of(e);
  } catch (const std::bad_alloc&) {
    print_error(
        "out of memory; heed train --print-config prints the memory that a run needs and the "
        "memory "
        "that is available; lower batch, context, d-model or layers, or raise --shards");
    code = kInputOutput;
  } catch (const std::filesystem::filesystem_error& e) {
    print_error(fmt::format("cannot use {}: {}",
                            e.path1().empty() ? "the current directory" : e.path1().string(),
                            e.code().message()));
    code = kInputOutput;
  } catch (const std::system_error& e) {  // such as a thread that cannot be started
    print_error(e.what());
    code = kInputOutput;
  } catch (const std::exception& e) {
    print_error(fmt::format("a bug in heed, please report it with the command: {}", e.what()));
  } catch (...) {
    print_error("a bug in heed, please report it with the command: an exception of unknown type");
  }
  // Without this check, results that were lost on a full disk would be reported as success.
  std::cout.flush();
  if (code == kOk && (std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout)) {
    print_error("cannot write the results to stdout; check that the disk is not full");
    code = kInputOutput;
  }
  return code;
}

int run_heed(int argc, char** argv, Commands (*all)()) {
  open_standard_streams();
  std::set_terminate(end_process);
  std::signal(SIGXFSZ, SIG_IGN);  // makes a write beyond the file size limit fail with an error
  return leave_ranks(exit_code_of([&] { return as_rank([&] { return run(argc, argv, all); }); }));
}

}  // namespace heed
