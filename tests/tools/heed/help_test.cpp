// Tests the help of every command, and that its output is what the help states: units, ranges and
// defaults of options, keys of --json, and lines of at most 80 columns.
#include <regex>
#include <set>

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

// Returns the keys of an object, each followed by the keys inside it: "run rows (name loss)". The
// objects of a list count as one object. The keys inside those of kOpen depend on the data.
std::string printed_keys(const nn::Json& value) {
  static const std::set<std::string> kOpen = {"references",
                                              "expected_references",
                                              "expected_accuracy_references",
                                              "accuracy_references",
                                              "config",
                                              "metadata",
                                              "options",
                                              "numbers"};
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
      const std::string inside = kOpen.contains(key) ? "" : printed_keys(values);
      text += (text.empty() ? "" : " ") + key + (inside.empty() ? "" : " (" + inside + ")");
    }
    return text;
  }
  return printed_keys(std::vector{value});
}

TEST_CASE("the keys of --json of every mode are these; text has 80 columns") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  const Place place;
  // The calls of each mode, "COMMAND MODE", and the keys that one of them prints.
  struct Mode {
    std::vector<std::string> calls;
    std::string keys;
  };
  const std::map<std::string, Mode> golden = {
      {"train ",
       {{"reverse --layers 1 --d-model 16 --steps 2 --quiet --out json-run --overwrite",
         "copy --layers 1 --d-model 16 --steps 1 --quiet --out other-run --overwrite"},
        "task steps seconds tokens_per_s loss optimal_loss accuracy standard_error references "
        "expected_optimal_loss expected_references expected_accuracy_references eval_sequences "
        "eval_tokens evaluation_set perplexity bits_per_character bits_per_byte train_loss "
        "train_accuracy run parameters seed ranks stopped"}},
      {"train --resume",
       {{"--resume " + kRun + " --quiet"},
        "task steps seconds tokens_per_s loss optimal_loss accuracy standard_error references "
        "expected_optimal_loss expected_references expected_accuracy_references eval_sequences "
        "eval_tokens evaluation_set perplexity bits_per_character bits_per_byte train_loss "
        "train_accuracy run parameters seed ranks stopped"}},
      {"eval ",
       {{kRun + " --sequences 4"},
        "task steps seconds tokens_per_s loss optimal_loss accuracy standard_error references "
        "expected_optimal_loss expected_references expected_accuracy_references eval_sequences "
        "eval_tokens evaluation_set perplexity bits_per_character bits_per_byte run weights "
        "position_loss position_optimal"}},
      {"eval --prompt",
       {{kRun + " --prompt abcdefghijklmnop"},
        "run weights tokens (position token id log_probability rank) loss"}},
      {"generate ",
       {{kRun + " --prompt abcdefghijklmnop"},
        "run prompt text tokens stopped seconds tokens_per_s"}},
      {"generate --samples",
       {{kRun + " --prompt abcdefghijklmnop --samples 2"},
        "run prompt samples (text tokens stopped) tokens seconds tokens_per_s"}},
      {"study ",
       {{kRun +
         " --ablate L0H0 --edge embed:Q:L0H0 --prompt abcdefghijklmnop --corrupt bbcdefghijklmnop"},
        "format run objective value tokens heads (layer head entropy relative_entropy "
        "largest_weight previous_token duplicate_token induction detect_induction first_token "
        "current_token softmax_gain importance absolute_importance dq dk dv dz dW_Q dW_K dW_V dW_O "
        "needed suffices predicted softmax_exact integrated mark) claims (text components role "
        "numbers) not_measured sample (sequences objective value without_heads) baseline "
        "(previous_token duplicate_token induction) sections (key title sentences tables (title "
        "what columns (name unit) rows) maps (title what signed row_axis column_axis rows columns "
        "panels (title values)) charts (title x_name y_name kind series (name x y)) "
        "network) files"}},
      {"study --over-time",
       {{kRun + " --over-time"},
        "format run sequences optimal_loss steps values loss counted_loss heads (layer head "
        "entropy relative_entropy largest_weight previous_token duplicate_token induction "
        "detect_induction first_token current_token softmax_gain importance absolute_importance dq "
        "dk dv dz dW_Q dW_K dW_V dW_O needed predicted) layers (layer resid_pre_grad "
        "resid_post_grad) steepest_fall sections (key title sentences tables (title what columns "
        "(name unit) rows) maps charts (title x_name y_name kind series (name x y)) network) "
        "files"}},
      {"info ",
       {{"finished/run --prompt abcdefghijklmnop"},
        "run task dtype weights config saved_step result (steps loss optimal_loss accuracy "
        "standard_error eval_sequences eval_tokens evaluation_set seconds weights_checksum) "
        "last_evaluation (step eval_loss eval_optimal eval_accuracy train_loss train_accuracy) "
        "vocabulary ids parameters attention flops_per_token parameter_bytes training_bytes "
        "tensors (name shape std) activation_bytes_per_sequence"}},
      {"plot ", {{"m.safetensors"}, "file files panels rows columns"}},
      {"plot of a run", {{kRun + " --out loss.svg"}, "file files"}},
      {"info of a directory of runs",
       {{"runs"}, "runs (run task step steps loss above_optimum eval_loss date problem)"}},
      {"info of a file",
       {{kRun + "/model.safetensors"},
        "file checksum numbers tensors (name dtype shape) metadata"}},
      {"export ",
       {{kRun + " --names transformerlens --out e.safetensors"},
        "run names tensors numbers files"}},
      {"import ",
       {{kRun + "/model.safetensors --out imported --overwrite"}, "run names tensors task"}},
      {"compare ",
       {{"finished text-run", "finished other-run"},
        "task quantity settings (setting options n final_mean final_error best above_mean "
        "above_error accuracy_mean accuracy_error seconds_mean seconds_error runs (run seed final "
        "best above accuracy seconds)) left_out (run why) files tasks (task quantity settings "
        "(setting options n final_mean final_error best above_mean above_error accuracy_mean "
        "accuracy_error seconds_mean seconds_error runs (run seed final best above accuracy "
        "seconds)))"}},
      {"tasks ",
       {{""},
        "tasks (task description vocabulary symbols context optimal_loss references accuracy steps "
        "expected_seconds) text_expected_seconds"}},
      {"tasks --task",
       {{"recall"},
        "task description vocabulary symbols context optimal_loss references accuracy steps "
        "expected_seconds optimum source prompt accuracy_references example (inputs targets "
        "counted) parameters (option default help) presets"}},
      {"tasks text or lines", {{"lines"}, "task description optimal_loss presets"}},
      {"tasks a preset", {{"small"}, "preset settings (key value)"}},
      {"gradcheck ",
       {{"exp"},
        "checked failed ops worst (name order error) skipped seconds seed rows (name checked "
        "failed skipped error_order_1 error_order_2 kinks_moved differences (entries of "
        "worst_order_1 (sample layout input at engine oracle terms tolerance step digits) "
        "worst_order_2 (sample layout input at engine oracle terms tolerance step digits)) dual "
        "(entries of worst_order_1 (sample layout input at engine oracle terms tolerance step "
        "digits) worst_order_2 (sample layout input at engine oracle terms tolerance step "
        "digits))) failures"}},
      {"gradcheck --run",
       {{"--run " + kRun + " --order 1"},
        "run parameters failed error message entries seconds float32 (ok target entries "
        "error_of_bound message) tensors (name parameters entries digits_dual digits_differences "
        "message)"}},
  };
  for (const auto& command : all_commands())
    for (const auto& mode : command->modes) {
      if (mode.result.size() == 0) continue;
      const std::string name = command->name + " " + mode.name();
      INFO("heed " << name);
      REQUIRE(golden.contains(name));
      nn::Json printed = nn::Json::array();
      for (const std::string& call : golden.at(name).calls) {
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
      CHECK(printed_keys(printed) == golden.at(name).keys);
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
