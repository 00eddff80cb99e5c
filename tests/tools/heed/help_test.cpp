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
using Kind = lab::Setting::Kind;

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

// Checks that a text has 80 columns. A long word at the end of a line, such as a path, may run
// over.
void check_width(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t last = line.rfind(' ') + 1;
    INFO(line);
    CHECK((width_of(line) <= 80 || (line.size() - last > 50 && last <= 80)));
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
    for (const lab::Setting& s : command->settings) {
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
                                     [](const lab::Setting& s) { return s.common; });
    CHECK((usual > 0 ? usual <= 12 : command->settings.size() <= 18));
    for (const lab::Setting& s : command->settings)
      CHECK(help_of(help, s.key).empty() == (usual > 0 && !s.common));
    const Outcome unknown = Place::run({command->name, "--help", "nothing"});
    CHECK(unknown.code == kUsage);
    CHECK(unknown.err.find("no part 'nothing'; ") != std::string::npos);
  }
}

TEST_CASE("--help all lists the keys of --json of every mode") {
  const Place place;
  for (const auto& command : all_commands()) {
    if (!lab::find_setting(command->settings, "json")) continue;
    const std::string help = words_of(help_at({command->name}, "all")) + " ";
    for (const Mode& mode : command->modes)
      if (!mode.keys.empty()) {
        INFO("heed " << command->name << " " << mode.name() << ": " << help);
        CHECK(help.find(": " + mode.keys + " ") != std::string::npos);
      }
  }
}

// Returns the keys of an object, each followed by the keys inside it: "run rows (name loss)". The
// objects of a list count as one object. The keys inside kOpen depend on the data.
std::string printed_keys(const nn::Json& value) {
  static const std::vector<std::string> kOpen = split(
      "references expected_references expected_accuracy_references accuracy_references config "
      "metadata options",
      ' ');
  if (const auto* items = value.as<nn::Json::Array>()) {
    nn::Json all = nn::Json::object();  // a list of the values of each key
    for (const nn::Json& item : *items)
      if (const auto* entries = item.as<nn::Json::Object>())
        for (const auto& [key, inside] : *entries) {
          if (!all.find(key)) all.append(key, nn::Json::array());
          const auto* list = inside.as<nn::Json::Array>();
          for (const nn::Json& one : list ? *list : std::vector{inside}) all[key].push_back(one);
        }
    std::string text;
    for (const auto& [key, values] : all.entries()) {
      const std::string inside = std::ranges::count(kOpen, key) > 0 ? "" : printed_keys(values);
      text += (text.empty() ? "" : " ") + key + (inside.empty() ? "" : " (" + inside + ")");
    }
    return text;
  }
  return printed_keys(std::vector{value});
}

TEST_CASE("--json of every mode has the keys that help lists; text has 80 columns") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  const Place place;
  const std::string prompt = " --prompt abcdefghijklmnop";
  // The calls of each mode, "COMMAND MODE". Together they print all keys.
  const std::map<std::string, std::vector<std::string>> calls = {
      {"train ",
       {"reverse --layers 1 --d-model 16 --steps 2 --quiet --out json-run --overwrite",
        "copy --layers 1 --d-model 16 --steps 1 --quiet --out other-run --overwrite"}},
      {"train --resume", {"--resume " + kRun + " --quiet"}},
      {"eval ", {kRun + " --sequences 4"}},
      {"eval --prompt", {kRun + prompt}},
      {"generate ", {kRun + prompt}},
      {"generate --samples", {kRun + prompt + " --samples 2"}},
      {"study ", {kRun + " --ablate L0H0 --samples 5"}},
      {"study --over-time", {kRun + " --over-time --samples 5"}},
      {"info ", {"finished/run" + prompt}},
      {"plot ", {"m.safetensors"}},
      {"plot of a run", {kRun + " --out loss.svg"}},
      {"info of a directory of runs", {"runs"}},
      {"info of a file", {kRun + "/model.safetensors"}},
      {"export ", {kRun + " --names transformerlens --out e.safetensors"}},
      {"import ", {kRun + "/model.safetensors --out imported --overwrite"}},
      {"compare ", {"finished text-run", "finished other-run"}},
      {"tasks ", {""}},
      {"tasks --task", {"recall"}},
      {"tasks text or lines", {"lines"}},
      {"tasks a preset", {"small"}},
      {"gradcheck ", {"exp"}},
      {"gradcheck --run", {"--run " + kRun + " --order 1"}},
  };
  for (const auto& command : all_commands())
    for (const auto& mode : command->modes) {
      if (mode.keys.empty()) continue;
      const std::string name = command->name + " " + mode.name();
      INFO("heed " << name);
      REQUIRE(calls.contains(name));
      nn::Json printed = nn::Json::array();
      for (const std::string& call : calls.at(name)) {
        std::vector<std::string> words =
            split(command->name + (call.empty() ? "" : " " + call), ' ');
        const auto run = [&](const char* more) {
          if (*more) words.emplace_back(more);
          Outcome o = Place::run(words);
          INFO(o.err);
          REQUIRE(o.code == kOk);
          return o.out;
        };
        if (mode.key != "resume") check_width(run(""));  // a run that is finished cannot be resumed
        const std::string json = run("--json");
        printed.push_back(nn::Json::parse(json.substr(0, json.find('\n'))));
      }
      CHECK(printed_keys(printed) == mode.keys);
    }
}

TEST_CASE("tables have 80 columns, for long names and many heads") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  const Place place;
  std::ofstream long_text("long.txt");
  for (int i = 0; i < 99; ++i) long_text << "line " << i << "\n";
  long_text.close();
  const std::string name = "runs/" + std::string(60, 'n'), text = " --text long.txt --context 3",
                    train = "train --batch 4 --steps 2 --eval-batch 4 --quiet --out ",
                    compare = "compare runs/a " + name + "1 " + name + "2 --out c";
  for (const std::string& words : std::vector<std::string>{
           train + "runs/a --task reverse --d-model 16",
           train + name + "1 --layers 6 --heads 8 --d-model 16 --save-every 1" + text,
           train + name + "2 --d-model 16 --from " + name + "1" + text, compare, "info runs",
           "info " + name + "1", "info " + name + "1/state.safetensors", "eval " + name + "1",
           "study " + name + "1 --show all --ablate all --samples 5",
           "study " + name + "1 --over-time --samples 5", "gradcheck --order 1 --run runs/a"}) {
    const Outcome o = Place::run(split(words, ' '));
    INFO("heed " << words << ": " << o.err);
    CHECK(o.code == kOk);
    check_width(o.out);
  }
}

}  // namespace
