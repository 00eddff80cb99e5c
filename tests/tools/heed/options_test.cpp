// Tests every option that a command declares. A bad value must cause an error of one line that
// names the option, and the correct exit code. The test fails if this file contains no bad value
// for an option. help_test.cpp tests the help.
#include <fmt/format.h>

#include "autograd/base/files.h"
#include "autograd/base/utf8.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/commands.h"
#include "tools/heed/command_line/cli11.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/report/output.h"

namespace {

using namespace heed;
using namespace heed::testing;
using Kind = lab::Setting::Kind;

// A bad value of an option, and the expected error.
struct BadValue {
  std::string value;
  int code = kUsage;                   // expected exit code
  std::vector<std::string> more = {};  // other required arguments
  std::string error = "";              // text of an error that does not name the option
};

// Returns bad values of an option that names a file or a run: the missing file `absent`, and a
// directory that is not a run. `more` are other arguments that the command line needs.
std::vector<BadValue> no_file(const std::string& absent,
                              const std::vector<std::string>& more = {}) {
  return {{absent, kInputOutput, more, absent}, {"directory", kInputOutput, more, "directory"}};
}
// Returns the bad values of options whose value is a text. A key of the map is "COMMAND OPTION", or
// "* OPTION" for all commands that are not listed themselves.
const std::map<std::string, std::vector<BadValue>>& bad_texts() {
  static const std::map<std::string, std::vector<BadValue>> table = {
      {"* config", no_file("absent.toml")},
      {"* run", no_file("absent")},
      {"export run", no_file("absent", {"--names", "torch", "--out", "e.safetensors"})},
      {"* weights", {{"absent.safetensors", kInputOutput, {kRun}, "absent.safetensors"}}},
      {"gradcheck weights",
       {{"absent.safetensors", kInputOutput, {"--run", kRun}, "absent.safetensors"}}},
      {"train task-split", {{"no-such", kUsage, {"--task", "modadd"}}}},
      {"eval text", {{"absent.txt", kUsage, {kRun}}}},  // this run did not learn a text
      {"eval lines", {{"absent.txt", kUsage, {kRun}}}},
      {"eval prompt", {{"?", kUsage, {kRun}, "?"}}},
      {"eval task-split", {{"no-such", kUsage, {kRun}}}},
      {"eval task-periods", {{"5..3"}}},
      {"generate stop", {{"?", kUsage, {kRun, "--prompt", "abcdefghijklmnop"}, "'?'"}}},
      {"gradcheck op", {{"sofmax", kUsage, {}, "sofmax"}}},
      {"train task", {{"indution", kUsage, {}, "'indution'"}}},
      {"train text", no_file("absent.txt")},
      {"train lines", {{"absent.txt", kInputOutput, {}, "absent.txt"}}},
      {"train answer-after", {{"ab", kUsage, {"--lines", "file.txt"}}}},
      {"train task-periods", {{"5..3"}}},
      {"train out", {{"file.txt", kInputOutput, {}, "file.txt"}, {"directory/../runs", kUsage}}},
      {"train resume", {{"absent", kInputOutput, {}, "absent"}}},
      {"train from", no_file("absent.safetensors")},
      {"info prompt", {{"?", kUsage, {kRun}, "?"}}},
      {"generate prompt", {{"?", kUsage, {kRun}, "?"}}},
      {"study prompt", {{"?", kUsage, {kRun}, "?"}}},
      {"study of", {{"gain", kUsage, {kRun}}, {"logit:??", kUsage, {kRun}}}},
      {"study at", {{"x", kUsage, {kRun}}, {"1,999", kUsage, {kRun}}, {",", kUsage, {kRun}}}},
      {"plot file",
       {{"absent.safetensors", kInputOutput, {}, "absent.safetensors"},
        {"file.txt", kUsage, {}, "file.txt"},
        {"directory", kUsage, {}, "directory"}}},
      {"plot name", {{"absent", kUsage, {kRun + "/model.safetensors"}}}},
      {"plot x-labels", {{"a,b", kUsage, {"m.safetensors"}}}},
      {"plot y-labels",
       {{"a,b,c", kUsage, {"m.safetensors"}}, {"file.txt", kUsage, {"m.safetensors"}}}},
      {"plot x-axis", {}},  // every text is valid
      {"plot y-axis", {}},
      {"plot title", {}},
      {"plot out",
       {{"absent/m.png", kInputOutput, {"m.safetensors"}, "absent"},
        {"m.jpg", kUsage, {"m.safetensors"}}}},
      {"study out", {{"file.txt", kUsage, {kRun}, "file.txt"}}},
      {"study keep", {{"L0", kUsage, {kRun}}, {"all", kUsage, {kRun}}}},
      {"study block", {{"L0H0", kUsage, {kRun}}, {"L0H0[1,99]", kUsage, {kRun}}}},
      {"study edge", {{"L0H0", kUsage, {kRun}}, {"embed:K:L0H0:logits", kUsage, {kRun}}}},
      {"study pairs",
       {{"missing.txt", kInputOutput, {kRun}, "missing.txt"}, {"file.txt", kUsage, {kRun}}}},
      {"study corruption", {{"digit", kUsage, {kRun}}}},
      {"study ablate", {{"L0", kUsage, {kRun}}, {"L0H0,L9H0", kUsage, {kRun}}}},
      {"study corrupt", {{"?", kUsage, {kRun}, "?"}}},
      {"compare runs", no_file("absent")},
      {"compare out", {{"file.txt", kUsage, {"finished"}, "file.txt"}}},
      {"export out",
       {{"absent/e.safetensors", kInputOutput, {kRun, "--names", "transformerlens"}, "absent"},
        {"e.txt", kUsage, {kRun, "--names", "transformerlens"}}}},
      {"export weights",
       {{"absent.safetensors",
         kInputOutput,
         {kRun, "--names", "transformerlens", "--out", "e.safetensors"},
         "absent"}}},
      {"import file",
       {{"absent.safetensors", kInputOutput, {"--out", "imported"}, "absent.safetensors"},
        {"directory", kUsage, {"--out", "imported"}, "directory"}}},
      {"import like",
       no_file("absent", {"--file", kRun + "/model.safetensors", "--out", "imported"})},
      {"import out", {{"file.txt", kInputOutput, {kRun + "/model.safetensors"}, "file.txt"}}},
  };
  return table;
}

std::vector<BadValue> bad_values(const std::string& command, const lab::Setting& s) {
  std::vector<BadValue> list = {{""}};  // --OPTION= without a value
  if (s.may_be_empty) list.clear();
  if (s.kind == Kind::kSwitch) return {{"maybe"}, {""}};
  if (s.kind == Kind::kInteger || s.kind == Kind::kReal) {
    for (const char* value : {"x", "nan", "1e999", "12abc"}) list.push_back({value});
    if (s.kind == Kind::kInteger) list.push_back({"0.5"});
    if (std::isfinite(s.range.low)) list.push_back({fmt::format("{:.0f}", s.range.low - 1)});
    if (std::isfinite(s.range.high)) list.push_back({fmt::format("{:.0f}", s.range.high + 1)});
    if (s.range.above) list.push_back({fmt::format("{}", s.range.low)});
    if (s.range.below) list.push_back({fmt::format("{}", s.range.high)});
    return list;
  }
  if (!s.names.empty()) {
    list.push_back({"no-such-name"});
    return list;
  }
  const auto& table = bad_texts();
  for (const std::string& key : {command + " " + s.key, "* " + s.key})
    if (const auto found = table.find(key); found != table.end()) {
      list.insert(list.end(), found->second.begin(), found->second.end());
      return list;
    }
  return {};
}

TEST_CASE("a bad value for any option is one line that names it") {
  const Place place;
  int options = 0, values = 0;
  for (const auto& command : all_commands())
    for (const lab::Setting& s : command->settings) {
      const std::vector<BadValue> bad = bad_values(command->name, s);
      ++options;
      INFO("heed " << command->name << " --" << s.key);
      CHECK(!bad.empty());
      for (const BadValue& b : bad) {
        std::vector<std::string> arguments = {command->name};
        arguments.insert(arguments.end(), b.more.begin(), b.more.end());
        arguments.push_back("--" + s.key + "=" + b.value);
        const Outcome o = Place::run(arguments);
        ++values;
        INFO("value '" << b.value << "', stdout: " << o.out << "stderr: " << o.err);
        CHECK(o.code == b.code);
        CHECK(o.out.empty());
        CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
        const bool named = o.err.find("--" + s.key) != std::string::npos ||
                           o.err.find(": " + s.key + ": ") != std::string::npos;
        CHECK((named || (!b.error.empty() && o.err.find(b.error) != std::string::npos)));
      }
    }
  CHECK(options > 90);
  CHECK(values > 300);
}

TEST_CASE("after = any text is a value") {
  std::string program = "heed";
  const Commands commands = all_commands();
  for (const auto& command : commands)
    for (const lab::Setting& s : command->settings)
      for (const std::string value : {"--a=-b 'c'", "--", ""}) {
        if ((s.kind != Kind::kText && s.kind != Kind::kList) || !s.names.empty() ||
            (value.empty() && !s.may_be_empty))
          continue;
        INFO("heed " << command->name << " --" << s.key << "=" << value);
        std::string option = "--" + s.key + "=" + value;
        char* argv[] = {program.data(), command->name.data(), option.data()};
        command->values.clear();
        parse_command_line(commands, 3, argv);
        CHECK((command->given(s.key) && command->text(s.key) == value));
      }
}

TEST_CASE("a message has one line, whichever option or key it is from") {
  const Place place;
  const std::string evil = "\x1b[31m\u202e\u200b\ufeff\u0085\x07\r\x7f\xff",
                    toml = "\\u001b[31m\\u202e\\u200b";
  int messages = 0;
  const auto check_message = [&](const std::vector<std::string>& arguments) {
    const Outcome o = Place::run(arguments);
    INFO(arguments[0] << " " << arguments.back() << ": " << o.err);
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') <= 1);
    messages += o.code != kOk && !o.err.empty();
  };
  for (const auto& command : all_commands()) {
    for (const lab::Setting& s : command->settings) {
      if (s.key == "out") continue;  // any path is valid
      check_message({command->name, "--" + s.key + "=" + evil});
    }
    check_message({command->name, "--" + evil + "=1"});
    check_message({command->name, evil, evil});
    if (!lab::find_setting(command->settings, "config")) continue;
    for (const std::string& text :
         {"[" + command->name + "]\n\"" + toml + "\" = 1", "[\"" + toml + "\"]\na = 1",
          "[" + command->name + "]\nthreads = \"" + toml + "\"",
          "[" + command->name + "\n" + evil}) {
      heed::autograd::write_file("evil.toml", text);
      check_message({command->name, "--config", "evil.toml"});
    }
    // A file cannot name a configuration file, and no text in it contains U+0000.
    for (const std::string text : {"config = \"x.toml\"", "task = \"a\\u0000b\""}) {
      heed::autograd::write_file("evil.toml", "[" + command->name + "]\n" + text);
      const Outcome o = Place::run({command->name, "--config", "evil.toml"});
      CHECK((o.code == kUsage && o.err.find("evil.toml:2") != o.err.npos));
    }
  }
  CHECK(messages > 150);
}

}  // namespace
