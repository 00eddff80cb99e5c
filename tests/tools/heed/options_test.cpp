// Tests every option that a command declares. The help must state the unit, the range and the
// default of the option. A bad value must cause an error of one line that names the option, and the
// correct exit code. The test fails if this file contains no bad value for an option.
#include <fmt/format.h>

#include <cstdio>
#include <regex>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "autograd/base/utf8.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/redirected.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/heed.h"
#include "tools/heed/report/output.h"

namespace {

using namespace heed;
using namespace heed::testing;
using Kind = nn::Setting::Kind;
namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string out, err;
};

// A temporary directory with a tiny run and other input files. It is the current directory until
// the object is destroyed.
class Place {
 public:
  Place() : before_(fs::current_path()), threads_(heed::autograd::num_threads()) {
    fs::create_directories(folder_ / "directory");
    fs::current_path(folder_.path());
    nn::RunConfig c = nn::preset("reverse");
    c.model.attention.d_model = 16, c.steps = 2, c.batch = 4, c.eval_batch = 8;
    nn::Trainer t(c);
    t.step();
    fs::create_directories("runs/reverse-1");
    nn::RunFolder("runs/reverse-1").save(t.snapshot());
    nn::RunFolder("runs/reverse-1").save_checkpoint(t.snapshot());
    fs::create_directories("sweeps/s/seed=1");
    t.evaluate(false);
    nn::RunFolder("sweeps/s/seed=1").save(t.snapshot());
    nn::Snapshot last = t.snapshot();
    last.finished = true, last.result = to_json(nn::RunResult{.steps = 1, .loss = 1});
    nn::RunFolder("sweeps/s/seed=1").save(last);
    heed::autograd::write_file("s.toml", std::string_view("[sweep]\nseed = [1]\n"));
    fs::copy("s.toml", "sweeps/s/sweep.toml");
    heed::autograd::write_file("file.txt", std::string_view("text"));
    heed::autograd::write_file("text.txt", std::string_view("the text of a run, which is short\n"));
    nn::RunConfig text = c;
    text.task = "text", text.text = "text.txt", text.model.context = 3;
    fs::create_directories("text-run");
    nn::RunFolder("text-run").save(nn::Trainer(text).snapshot());
    nn::save_safetensors("m.safetensors", {{"m", heed::autograd::ones({2, 3})}});
  }
  Place(const Place&) = delete;
  ~Place() {
    fs::current_path(before_);
    heed::autograd::set_num_threads(threads_);
  }
  static Outcome run(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"heed"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& a : all) argv.push_back(a.data());
    Outcome o{};
    {
      const Redirected out(stdout, "out"), err(stderr, "err");
      o.code = run_heed(int(argv.size()), argv.data());
    }
    o.out = heed::autograd::read_file("out"), o.err = heed::autograd::read_file("err");
    return o;
  }

 private:
  fs::path before_;
  Folder folder_;
  int threads_;
};

// A bad value of an option, and the expected error.
struct BadValue {
  std::string value;
  int code = kUsage;                   // expected exit code
  std::vector<std::string> more = {};  // other required arguments
  std::string error = "";              // text of an error that does not name the option
};

const std::string kRun = "runs/reverse-1";

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
      {"* simd", {{"abacus", kUsage, {}, "abacus"}}},
      {"sweep simd", {{"abacus", kUsage, {"s.toml"}, "abacus"}}},
      {"compare simd", {{"abacus", kUsage, {"sweeps/s"}, "abacus"}}},
      {"verify simd", {{"abacus", kUsage, {"causality"}, "abacus"}}},
      {"* run", no_file("absent")},
      {"export run", no_file("absent", {"--names", "torch", "--out", "e.safetensors"})},
      {"* weights", {{"absent.safetensors", kInputOutput, {kRun}, "absent.safetensors"}}},
      {"gradcheck weights",
       {{"absent.safetensors", kInputOutput, {"--run", kRun}, "absent.safetensors"}}},
      {"verify run", no_file("absent", {"causality"})},
      {"verify weights",
       {{"absent.safetensors", kInputOutput, {"causality", "--run", kRun}, "absent.safetensors"}}},
      {"train task-filler", {{"no-such", kUsage, {"--task", "recall"}}}},
      {"train task-split", {{"no-such", kUsage, {"--task", "modadd"}}}},
      {"eval text", {{"absent.txt", kUsage, {kRun}}}},  // this run did not learn a text
      {"eval lines", {{"absent.txt", kUsage, {kRun}}}},
      {"eval context", {{"0", kUsage, {kRun}}, {"4,x", kUsage, {kRun}}, {"8,8", kUsage, {kRun}}}},
      {"eval task-filler", {{"no-such", kUsage, {kRun}}}},
      {"eval task-split", {{"no-such", kUsage, {kRun}}}},
      {"eval task-periods", {{"5..3"}}},
      {"score run", no_file("absent", {"--prompt", "abcdefghijklmnop"})},
      {"score prompt", {{"?", kUsage, {kRun}, "?"}}},
      {"score text", {{"absent.txt", kUsage, {kRun}}}},
      {"score save",
       {{"logits.npy", kUsage, {kRun, "--prompt", "abcdefghijklmnop"}},
        {"absent/x.safetensors", kInputOutput, {kRun, "--prompt", "abcdefghijklmnop"}, "absent"}}},
      {"score weights",
       {{"absent.safetensors",
         kInputOutput,
         {kRun, "--prompt", "abcdefghijklmnop"},
         "absent.safetensors"}}},
      {"score simd", {{"abacus", kUsage, {"--prompt", "a"}, "abacus"}}},
      {"generate stop", {{"?", kUsage, {kRun, "--prompt", "abcdefghijklmnop"}, "'?'"}}},
      {"gradcheck op", {{"sofmax", kUsage, {}, "sofmax"}}},
      {"train task", {{"indution", kUsage, {}, "'indution'"}}},
      {"train text", no_file("absent.txt")},
      {"train lines", {{"absent.txt", kInputOutput, {}, "absent.txt"}}},
      {"train val-text",
       {{"absent.txt", kUsage},
        {"absent.txt", kUsage, {"--lines", "file.txt"}},
        {"absent.txt", kInputOutput, {"--text", "text.txt", "--context", "3"}, "absent.txt"}}},
      {"train val-lines",
       {{"absent.txt", kUsage},
        {"absent.txt", kUsage, {"--text", "text.txt"}},
        {"absent.txt", kInputOutput, {"--lines", "file.txt"}, "absent.txt"}}},
      {"train answer-after", {{"ab", kUsage, {"--lines", "file.txt"}}}},
      {"train task-periods", {{"5..3"}}},
      {"train out", {{"file.txt", kInputOutput, {}, "file.txt"}, {"directory/../runs", kUsage}}},
      {"train resume", {{"absent", kInputOutput, {}, "absent"}}},
      {"train from", no_file("absent.safetensors")},
      {"train from-weights", {{"step 9", kInputOutput, {"--from", kRun}}}},
      {"train sample-prompt", {{"?", kUsage, {"--sample-every", "1"}, "?"}}},
      {"train freeze", {{"no.such", kUsage}, {"*", kUsage}}},
      {"train train-only", {{"no.such", kUsage}, {"tok.*,no.such", kUsage}}},
      {"generate prompt", {{"?", kUsage, {kRun}, "?"}}},
      {"study prompt", {{"?", kUsage, {kRun}, "?"}}},
      {"study of", {{"gain", kUsage, {kRun}}, {"logit:??", kUsage, {kRun}}}},
      {"study at", {{"x", kUsage, {kRun}}, {"1,999", kUsage, {kRun}}, {",", kUsage, {kRun}}}},
      {"study head", {{"L9H0", kUsage, {kRun}}, {"head", kUsage, {kRun}}}},
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
      {"study other", {{"absent", kInputOutput, {kRun}, "absent"}}},
      {"study more", {{"absent", kInputOutput, {kRun, kRun}, "absent"}}},
      {"study out", {{"file.txt", kInputOutput, {kRun}, "file.txt"}}},
      {"study keep", {{"L0", kUsage, {kRun}}, {"all", kUsage, {kRun}}}},
      {"study cut", {{"L0H0", kUsage, {kRun}}, {"L0H0[1,99]", kUsage, {kRun}}}},
      {"study edges-into", {{"L0", kUsage, {kRun}}, {"L0H0.X", kUsage, {kRun}}}},
      {"study edge", {{"L0H0", kUsage, {kRun}}, {"embed:K:L0H0:logits", kUsage, {kRun}}}},
      {"study path", {{"L0H0:L0H0", kUsage, {kRun}}, {"L0H0:Q:L0H0", kUsage, {kRun}}}},
      {"study repeat-random", {{"4", kUsage, {kRun}}, {"99x99", kUsage, {kRun}}}},
      {"study pairs",
       {{"missing.txt", kInputOutput, {kRun}, "missing.txt"}, {"file.txt", kUsage, {kRun}}}},
      {"study corruption", {{"digit", kUsage, {kRun}}}},
      {"study ablate", {{"L0", kUsage, {kRun}}, {"L0H0,L9H0", kUsage, {kRun}}}},
      {"study corrupt", {{"?", kUsage, {kRun}, "?"}}},
      {"verify out", {{"file.txt", kInputOutput, {"causality", kRun}, "file.txt"}}},
      {"gradcheck junit", {{"absent/file.xml", kInputOutput, {"exp", "--order", "1"}, "absent"}}},
      {"gradcheck curve", {{"absent/file.png", kInputOutput, {"exp"}, "absent"}}},
      {"sweep file",
       {{"absent.toml", kInputOutput, {}, "absent.toml"},
        {"directory", kInputOutput, {}, "directory"},
        {"file.txt", kUsage, {}, "file.txt"}}},
      {"sweep out", {{"file.txt", kUsage, {"s.toml"}}, {"directory/..", kUsage, {"s.toml"}}}},
      {"sweep part", {{"3/2", kUsage, {"s.toml"}}, {"1", kUsage, {"s.toml"}}}},
      {"compare runs", no_file("absent")},
      {"compare against", {{"lr", kUsage, {"sweeps/s"}}}},
      {"compare out", {{"file.txt", kInputOutput, {"sweeps/s"}, "file.txt"}}},
      {"diff a", no_file("absent", {"--b", kRun})},
      {"diff b", no_file("absent", {kRun})},
      {"export out",
       {{"absent/e.safetensors", kInputOutput, {kRun, "--names", "transformerlens"}, "absent"},
        {"e.txt", kUsage, {kRun, "--names", "transformerlens"}}}},
      {"export weights",
       {{"absent.safetensors",
         kInputOutput,
         {kRun, "--names", "transformerlens", "--out", "e.safetensors"},
         "absent"}}},
      {"runs runs", {{"absent", kInputOutput, {}, "absent"}}},
  };
  return table;
}

std::vector<BadValue> bad_values(const std::string& command, const nn::Setting& s) {
  std::vector<BadValue> list = {{""}};  // --OPTION= without a value
  if (s.may_be_empty) list.clear();
  if (s.kind == Kind::kSwitch) return {{"maybe"}};
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
    for (const nn::Setting& s : command->settings) {
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

// Returns whether a text contains a control character other than \n, or a character without width
// or of a direction.
bool has_invisible(const std::string& text) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f'; };
  for (const char* sequence : {"\u202e", "\u200b", "\ufeff", "\u0085"})
    if (text.find(sequence) != text.npos) return true;
  return !heed::autograd::is_utf8(text) || std::any_of(text.begin(), text.end(), is_control);
}

TEST_CASE("no message contains a control character, whichever option or key it is from") {
  const Place place;
  const std::string evil = "\x1b[31m\u202e\u200b\ufeff\u0085\x07\r\x7f\xff",
                    toml = "\\u001b[31m\\u202e\\u200b";
  int messages = 0;
  const auto check_message = [&](const std::vector<std::string>& arguments) {
    const Outcome o = Place::run(arguments);
    INFO(arguments[0] << " " << arguments.back() << ": " << o.err);
    CHECK(!has_invisible(o.err));
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') <= 1);
    messages += o.code != kOk && !o.err.empty();
  };
  for (const auto& command : all_commands()) {
    for (const nn::Setting& s : command->settings) {
      if (s.key == "out" || s.key == "junit" || s.key == "curve") continue;  // any path is valid
      check_message({command->name, "--" + s.key + "=" + evil});
    }
    check_message({command->name, "--" + evil + "=1"});
    check_message({command->name, evil, evil});
    if (!nn::find_setting(command->settings, "config")) continue;
    for (const std::string& text :
         {"[" + command->name + "]\n\"" + toml + "\" = 1", "[\"" + toml + "\"]\na = 1",
          "[" + command->name + "]\nsimd = \"" + toml + "\"", "[" + command->name + "\n" + evil}) {
      heed::autograd::write_file("evil.toml", text);
      check_message({command->name, "--config", "evil.toml"});
    }
    // A file cannot name a configuration file, and no text in it contains U+0000.
    for (const std::string text : {"config = \"x.toml\"", "simd = \"a\\u0000b\""}) {
      heed::autograd::write_file("evil.toml", "[" + command->name + "]\n" + text);
      const Outcome o = Place::run({command->name, "--config", "evil.toml"});
      CHECK((o.code == kUsage && o.err.find("evil.toml:2") != o.err.npos));
    }
  }
  CHECK(messages > 150);
}

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
      std::string group = s.group;
      for (char& c : group) c = char(std::tolower(static_cast<unsigned char>(c)));
      CHECK(help_of(help_at({command->name}, group), s.key) == help);
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
    CHECK(unknown.err.find("no group 'nothing'; its groups are ") != std::string::npos);
  }
}

TEST_CASE("--help json lists the keys of --json of every mode") {
  const Place place;
  for (const auto& command : all_commands()) {
    if (!nn::find_setting(command->settings, "json")) continue;
    const std::string help = words_of(help_at({command->name}, "json")) + " ";
    for (const Mode& mode : command->modes)
      if (mode.result.size() > 0) {
        INFO("heed " << command->name << " " << mode.name() << ": " << help);
        CHECK(help.find(": " + keys_text(mode.result) + " ") != std::string::npos);
      }
  }
}

TEST_CASE("an option that a mode excludes is rejected, also if it is a common option") {
  const Place place;
  const Outcome o = Place::run({"verify", "resume", kRun, "--threads", "2"});
  CHECK(o.code == kUsage);
  CHECK(o.err == "heed: --threads has no effect with resume; leave out --threads\n");
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

// Checks that the first line of `csv` consists of the declared keys of the first table.
void check_csv(Columns declared, const std::string& csv) {
  const Column* table = std::find_if(declared.begin(), declared.end(),
                                     [](const Column& column) { return column.is_table; });
  std::string keys;
  for (const Column& column : table->inside)
    if (!column.key.empty() && column.inside.size() == 0)
      keys += (keys.empty() ? "" : ",") + std::string(column.key);
  CHECK(csv.substr(0, csv.find('\n')) == keys);
}

TEST_CASE("the keys of --json and --csv are those that help states; text has 80 columns") {
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
      {"train --dry-run", with(tiny, {"--dry-run"})},
      {"train --overfit-batch", with(tiny, {"--overfit-batch"})},
      {"eval ", {kRun, "--sequences", "4"}},
      {"eval --context T,T,...", {kRun, "--context", "4,8,9", "--sequences", "4"}},
      {"generate ", {kRun, "--prompt", "abcdefghijklmnop"}},
      {"generate --probabilities", {kRun, "--prompt", "abcdefghijklmnop", "--probabilities"}},
      {"generate --samples and --probabilities",
       {kRun, "--prompt", "abcdefghijklmnop", "--samples", "2", "--probabilities"}},
      {"generate --samples", {kRun, "--prompt", "abcdefghijklmnop", "--samples", "2"}},
      {"score --prompt", {kRun, "--prompt", "abcdefghijklmnop"}},
      {"score --text", {"text-run", "--text", "text.txt", "--stride", "2"}},
      {"study ", {kRun, "--ablate", "L0H0"}},
      {"study --over-time", {kRun, "--over-time"}},
      {"study --circuits", {kRun, "--circuits"}},
      {"study --other", {kRun, kRun}},
      {"verify causality", {"causality", kRun, "--length", "4"}},
      {"verify resume", {"resume", kRun}},
      {"verify run", {"run", kRun}},
      {"info ", {kRun}},
      {"plot ", {"m.safetensors"}},
      {"info of a file", {kRun + "/model.safetensors"}},
      {"diff ", {kRun, kRun + "/model.safetensors"}},
      {"export ", {kRun, "--names", "transformerlens", "--out", "e.safetensors"}},
      {"runs ", {}},
      {"sweep ", {"s.toml"}},  // all runs of this sweep are finished already
      {"sweep --dry-run", {"s.toml", "--dry-run"}},
      {"compare ", {"sweeps/s", "--of", "entropy"}},
      {"compare --of roles", {"sweeps/s", "--of", "roles"}},
      {"tasks ", {}},
      {"tasks --task", {"recall"}},
      {"tasks text or lines", {"lines"}},
      {"gradcheck ", {"exp", "--order", "1"}},
      {"gradcheck --mutants", {"exp", "--mutants"}},
      {"gradcheck --curve", {"exp", "--curve", "exp.png"}},
      {"gradcheck --run", {"--run", kRun, "--seconds", "1", "--order", "1"}},
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
        REQUIRE((o.code == kOk || mode.key == "overfit-batch"));
        return o.out;
      };
      const std::string json = run({"--json"});
      check_keys(mode.result, nn::Json::parse(json.substr(0, json.find('\n'))));
      if (mode.key == "resume") continue;  // the run is finished and cannot be resumed again
      check_width(run({}));
      if (mode.has_table()) check_csv(mode.result, run({"--csv"}));
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
           train + name + "3 --layers 1 --positions rope --window 2" + text, compare,
           compare + " --of entropy --target 1", "runs", "diff " + name + "1 " + name + "3",
           "info " + name + "1", "eval " + name + "1", "study " + name + "1",
           "verify run " + name + "1"}) {
    const Outcome o = Place::run(split(words, ' '));
    INFO("heed " << words << ": " << o.err);
    CHECK(o.code == (words.starts_with("diff") ? kCheckFailed : kOk));
    check_width(o.out);
  }
}

}  // namespace
