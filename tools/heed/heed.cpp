// Command line to command, exception to exit code.
#include "tools/heed/heed.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>

#include "autograd/base/parallel.h"
#include "nn/io/nearest.h"
#include "tools/heed/commands.h"
#include "tools/heed/output.h"

namespace heed {
namespace {

constexpr const char* kStart = R"(heed trains toy causal models, and proves their gradients.

Three commands to start with:
  heed train              learns the task induction in seconds; draws its loss and its attention
  heed generate           continues a sequence with the newest model
  heed gradcheck          checks the derivative of every op and layer

heed --help lists all commands, heed train --help all options of one.
)";

constexpr const char* kExitCodes = R"(Results go to stdout, progress to stderr. Exit codes:
  0  done
  1  a check failed
  2  usage: what was asked for cannot be done
  3  numeric trouble: NaN, or with --strict a parameter without gradient
  4  a file cannot be read or written
  70 a bug in heed
  130 interrupted

heed COMMAND --help tells all about one, with examples.)";

int report_unknown(CLI::App& app, Command* command) {
  const std::vector<std::string> rest = command ? command->app().remaining() : app.remaining();
  for (const std::string& argument : rest)
    if (argument.starts_with('-') && argument.size() > 1 && argument != "--") {
      std::vector<std::string> keys =
          command ? command->keys() : std::vector<std::string>{"version"};
      keys.push_back("help");
      complain(unknown_option(argument, command ? command->name() : "", keys));
      return kUsage;
    }
  for (const std::string& argument : rest) {
    if (argument == "--") continue;
    if (command) {
      complain(fmt::format("'{}' is one argument too many; see heed {} --help", argument,
                           command->name()));
      return kUsage;
    }
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
    complain(fmt::format("there is no command '{}'; did you mean heed {}? Commands: {}", argument,
                         nn::nearest(argument, names), listing(names)));
    return kUsage;
  }
  return kOk;
}

int run(int argc, char** argv) {
  CLI::App app("heed trains toy causal models, and proves their gradients.", "heed");
  app.get_formatter()->column_width(30);
  app.get_formatter()->label("OPTIONS", "options");
  app.get_formatter()->label("SUBCOMMAND", "command");
  app.get_formatter()->label("Positionals", "Arguments");
  app.allow_extras();
  app.require_subcommand(0, 1);
  app.footer(kExitCodes);
  bool version = false;
  app.add_flag("--version", version, "print version, compiler and threads");
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make : {train_command, eval_command, generate_command, study_command,
                          gradcheck_command, bench_command, info_command, tasks_command})
    commands.push_back(make(app));

  const auto chosen = [&]() -> Command* {
    for (const auto& c : commands)
      if (c->app().parsed() || app.got_subcommand(&c->app())) return c.get();
    return nullptr;
  };
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto named = std::find_if(commands.begin(), commands.end(),
                                    [&](const auto& c) { return c->name() == arguments[i]; });
    if (named == commands.end()) continue;
    (*named)->check_values({arguments.begin() + std::ptrdiff_t(i) + 1, arguments.end()});
    break;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    Command* command = chosen();
    std::string help = command ? command->app().help() : app.help();
    for (std::size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
    say("{}", help);
    return kOk;
  } catch (const CLI::ParseError& e) {
    if (const int code = report_unknown(app, chosen())) return code;
    const Command* command = chosen();
    std::string problem = e.what();
    complain(fmt::format("{}; see heed{} --help", problem, command ? " " + command->name() : ""));
    return kUsage;
  }
  Command* command = chosen();
  if (const int code = report_unknown(app, nullptr)) return code;
  if (version) {
    say("heed {}\nthreads  {}\n", version_text(), autograd::num_threads());
    return kOk;
  }
  if (!command) {
    say("{}", kStart);
    return kOk;
  }
  if (const int code = report_unknown(app, command)) return code;
  command->apply(commands);
  return command->run();
}

}  // namespace

int run_heed(int argc, char** argv) {
  int code = kBug;
  try {
    code = run(argc, argv);
  } catch (const autograd::NumericError& e) {
    complain(e.what());
    code = kNumeric;
  } catch (const autograd::IoError& e) {
    complain(e.what());
    code = kInputOutput;
  } catch (const autograd::Error& e) {
    complain(e.what());
    code = kUsage;
  } catch (const std::bad_alloc&) {
    complain("out of memory; heed train --dry-run says what a run needs. Lower batch or context");
    code = kUsage;
  } catch (const std::system_error& e) {  // the file system, a closed stdout
    complain(e.what());
    code = kInputOutput;
  } catch (const std::exception& e) {
    complain(fmt::format("a bug in heed: {}", e.what()));
  } catch (...) {
    complain("a bug in heed: an exception of unknown type");
  }
  // What a full disk swallowed of the results would otherwise look like success.
  std::cout.flush();
  if (code == kOk && (std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout)) {
    complain("cannot write the results to stdout");
    code = kInputOutput;
  }
  return code;
}

}  // namespace heed
