// Tests the help of every command, and that its output is what the help states: units, ranges and
// defaults of options, keys of --json, and lines of at most 80 columns.
#include <regex>

#include "autograd/base/text.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/commands.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/report/output.h"

namespace {

using namespace heed;
using namespace heed::testing;
using Kind = nn::Setting::Kind;

// Returns the words of a text, separated by single spaces.
std::string words_of(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

// Returns the help of an option, which is its line from "--key" on and the indented lines below
// that line. All words are separated by single spaces.
std::string help_of(const std::string& help, const std::string& key) {
  const std::regex first("^  ([A-Z.]+, )?(--" + key + "([ ,]|$))");
  std::istringstream lines(help);
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    const bool starts = std::regex_search(line, found, first);
    inside = starts || (inside && line.starts_with("        "));
    if (inside) text += line.substr(starts ? std::size_t(found.position(2)) : 0) + "\n";
  }
  return words_of(text);
}

void check_width(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const auto width =
        std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    INFO(line);
    CHECK(width <= 80);
  }
}

// Returns the help of a command, or of the program, at a level.
std::string help_at(std::vector<std::string> words, const std::string& level) {
  words.push_back("--help");
  if (!level.empty()) words.push_back(level);
  const Outcome o = Place::run(words);
  INFO(o.err);
  CHECK(o.code == kOk);
  return o.out;
}

TEST_CASE("--help all states of every option its unit, its range or names, and its default, once") {
  const Place place;
  for (const auto& command : all_commands()) {
    const std::string all = help_at({command->name}, "all");
    for (const nn::Setting& s : command->settings) {
      const std::string help = help_of(all, s.key), name = "--" + s.key;
      INFO("heed " << command->name << " --help all prints: " << help);
      const std::string start = s.kind == Kind::kSwitch ? name : name + " " + s.unit + " ";
      CHECK(help.starts_with(start));
      CHECK(help.find(start, 1) == std::string::npos);
      CHECK(help.find(s.help) != std::string::npos);
      CHECK(help.find(s.range.text()) != std::string::npos);
      const std::string shown = s.shown.empty() ? "" : "(default: " + s.shown + ")";
      CHECK(help.ends_with(s.required ? "(required)" : shown));
      for (const std::string& choice : s.names) CHECK(help.find(choice) != std::string::npos);
      // An option --task-X belongs to several tasks and has a range for each task, so the option
      // itself need not have a range.
      const bool of_tasks = s.key.starts_with("task-");
      if ((s.kind == Kind::kInteger || s.kind == Kind::kReal) && !of_tasks)
        CHECK((std::isfinite(s.range.low) || std::isfinite(s.range.high)));
    }
  }
}

TEST_CASE("the first help has at most 60 lines, 3 examples at its top and the usual options") {
  const Place place;
  check_width(help_at({}, "all"));
  for (const auto& command : all_commands()) {
    INFO("heed " << command->name << " --help");
    const std::string help = help_at({command->name}, "");
    check_width(help);
    CHECK(std::count(help.begin(), help.end(), '\n') <= 60);
    CHECK(help.find("\nExamples:\n  ") < 200);
    const auto usual = std::count_if(command->settings.begin(), command->settings.end(),
                                     [](const nn::Setting& s) { return s.common; });
    CHECK((usual > 0 ? usual <= 12 : command->settings.size() <= 18));
    for (const nn::Setting& s : command->settings)
      CHECK(help_of(help, s.key).empty() == (usual > 0 && !s.common));
    const Outcome unknown = Place::run({command->name, "--help", "nothing"});
    CHECK(unknown.code == kUsage);
    CHECK(unknown.err.find("no part 'nothing'; ") != std::string::npos);
  }
}

TEST_CASE("--help all lists the keys of --json of every mode") {
  const Place place;
  for (const auto& command : all_commands()) {
    if (!nn::find_setting(command->settings, "json")) continue;
    const std::string help = words_of(help_at({command->name}, "all")) + " ";
    for (const Mode& mode : command->modes)
      if (mode.result.size() > 0) {
        INFO("heed " << command->name << " " << mode.name() << ": " << help);
        CHECK(help.find(": " + keys_text(mode.result) + " ") != std::string::npos);
      }
  }
}

// Checks that the printed keys are the declared keys in the declared order. Keys inside objects and
// tables are checked, too.
void check_keys(Columns declared, const nn::Json& printed) {
  if (const auto* items = printed.as<nn::Json::Array>()) {
    for (const nn::Json& item : *items) check_keys(declared, item);
    return;
  }
  if (printed == nullptr) return;
  std::vector<std::string> keys, found;
  for (const Column& column : declared)
    if (!column.key.empty()) keys.emplace_back(column.key);
  for (const auto& [key, value] : printed.entries()) found.push_back(key);
  CHECK(found == keys);
  for (const Column& column : declared)
    if (const nn::Json* value = printed.find(column.key); value && column.inside.size() > 0)
      check_keys(column.inside, *value);
}

TEST_CASE("the keys of --json are those that help states; text has 80 columns") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  const Place place;
  const std::vector<std::string> tiny = {"reverse", "--layers",     "1", "--d-model",
                                         "16",      "--batch",      "4", "--steps",
                                         "300",     "--eval-batch", "4", "--quiet"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  // The arguments of a call in each mode. The key is "COMMAND MODE".
  const std::map<std::string, std::vector<std::string>> calls = {
      {"train ", with(tiny, {"--steps", "2", "--out", "json-run", "--overwrite"})},
      {"train --resume", {"--resume", kRun, "--quiet"}},
      {"eval ", {kRun, "--sequences", "4"}},
      {"eval --prompt", {kRun, "--prompt", "abcdefghijklmnop"}},
      {"generate ", {kRun, "--prompt", "abcdefghijklmnop"}},
      {"generate --samples", {kRun, "--prompt", "abcdefghijklmnop", "--samples", "2"}},
      {"study ", {kRun, "--ablate", "L0H0"}},
      {"study --over-time", {kRun, "--over-time"}},
      {"info ", {kRun}},
      {"plot ", {"m.safetensors"}},
      {"plot of a run", {kRun, "--out", "loss.svg"}},
      {"info of a directory of runs", {"runs"}},
      {"info of a file", {kRun + "/model.safetensors"}},
      {"export ", {kRun, "--names", "transformerlens", "--out", "e.safetensors"}},
      {"import ", {kRun + "/model.safetensors", "--out", "imported", "--overwrite"}},
      {"compare ", {"finished"}},
      {"tasks ", {}},
      {"tasks --task", {"recall"}},
      {"tasks text or lines", {"lines"}},
      {"tasks a preset", {"small"}},
      {"gradcheck ", {"exp", "--order", "1"}},
      {"gradcheck --run", {"--run", kRun, "--order", "1"}},
  };
  for (const auto& command : all_commands()) {
    bool any = false;
    for (const Mode& mode : command->modes) {
      if (mode.result.size() == 0) continue;
      any = true;
      const std::string name = command->name + " " + mode.name();
      INFO("heed " << name);
      const auto call = calls.find(name);
      REQUIRE(call != calls.end());
      const std::vector<std::string> words = with({command->name}, call->second);
      const auto run = [&](const std::vector<std::string>& more) {
        Outcome o = Place::run(with(words, more));
        INFO(o.err);
        REQUIRE(o.code == kOk);
        return o.out;
      };
      const std::string json = run({"--json"});
      check_keys(mode.result, nn::Json::parse(json.substr(0, json.find('\n'))));
      if (mode.key == "resume") continue;  // the run is finished and cannot be resumed again
      check_width(run({}));
    }
    CHECK(any == (nn::find_setting(command->settings, "json") != nullptr));
  }
}

TEST_CASE("text has 80 columns for runs with long names that differ in many settings") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  const Place place;
  const std::string name = "runs/" + std::string(30, 'n'), text = " --text text.txt --context 3",
                    train = "train --d-model 16 --batch 4 --steps 2 --eval-batch 4 --quiet --out ",
                    compare = "compare runs/a " + name + "1 " + name + "2 " + name + "3 --out c";
  for (const std::string& words : std::vector<std::string>{
           train + "runs/a --task reverse", train + name + "1 --norm-kind rmsnorm" + text,
           train + name + "2 --lr 0.5 --norm-kind rmsnorm --from " + name + "1" + text,
           train + name + "3 --layers 1 --positions rope --window 2" + text, compare, "info runs",
           "info " + name + "1", "eval " + name + "1", "study " + name + "1"}) {
    const Outcome o = Place::run(split(words, ' '));
    INFO("heed " << words << ": " << o.err);
    CHECK(o.code == kOk);
    check_width(o.out);
  }
}

}  // namespace
